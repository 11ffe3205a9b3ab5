"""The list of figures, and their rendering for both modes. A figure without data is left out."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hindcast_dagster.report import theme
from hindcast_dagster.report.figures import cells, frontier, quality, questions
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.theme import Mode


class Figure(NamedTuple):
    """One figure, rendered for both modes."""

    name: str
    title: str
    caption: str
    light: str
    dark: str
    png: bytes
    small: bytes
    """A PNG below 30 KB for the orchestrator's event log, which keeps every picture for ever."""


SMALL_BYTES: Final = 30_000
SMALL_SCALES: Final = (1.0, 0.75, 0.5)
Draw = Callable[[Gathered, Mode], Any]


def render(gathered: Gathered) -> dict[str, Figure]:
    """Render every figure that has data, by name."""
    made = {}
    for name, (draw, title, caption) in FIGURES.items():
        chart = draw(gathered, "light")
        if chart is not None:
            light, dark = _spec(chart, "light"), _spec(draw(gathered, "dark"), "dark")
            made[name] = Figure(
                name,
                title,
                caption if isinstance(caption, str) else caption(gathered),
                theme.data_uri(theme.svg(light)),
                theme.data_uri(theme.svg(dark)),
                theme.png(light),
                _small(light),
            )
    return made


def _small(spec: dict[str, Any]) -> bytes:
    """Return the sharpest PNG that is small enough; the smallest one when none is."""
    made = b""
    for scale in SMALL_SCALES:
        made = theme.png(spec, scale=scale)
        if len(made) < SMALL_BYTES:
            break
    return made


def _spec(chart: Any, mode: Mode) -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict()
    return spec | {"config": theme.config(mode)}


FRONTIER: Final = "Dashed: the best Brier that can be had for so much."
FIGURES: Final[dict[str, tuple[Draw, str, str | Callable[[Gathered], str]]]] = {
    "headline": (
        cells.headline,
        "Brier score by model and arm",
        (
            "Marks are means over runs, bars one sample SD over runs; a hollow mark answered few or other questions "
            "and has no place in an order. Dashed lines: forecasters that ask no model."
        ),
    ),
    "topics": (
        questions.topics,
        "Topics of the questions",
        "Share and, in brackets, number of questions; topics below 4 % are part of Other.",
    ),
    "topic_effects": (
        quality.topic_effects,
        "Where an arm helps and where it hurts",
        (
            "Pairs of runs that the arm gets right and zero-shot wrong, minus the reverse; in brackets both counts. "
            "Topics with at least four markets."
        ),
    ),
    "reliability": (
        quality.reliability,
        "Reliability",
        (
            "Equal-width bins, low edge included; mark size is the number of forecasts. On the dashed line a forecast "
            "means what it says. At most five cells, lowest Brier first, beside the market."
        ),
    ),
    "scatter": (
        questions.scatter,
        "Forecast against the market's price",
        "One mark per question, mean over runs. At most six cells, lowest Brier first.",
    ),
    "trajectory": (
        questions.trajectory,
        "One market over time",
        questions.trajectory_caption,
    ),
    "knowledge": (
        cells.knowledge,
        "Accuracy against knowledge cutoff",
        "Only models whose maker publishes a cutoff. A rise towards the right would hint at remembered outcomes.",
    ),
    "frontier": (frontier.tokens, "Brier against tokens", f"Prompt and reply tokens of one forecast. {FRONTIER}"),
    "frontier_seconds": (frontier.seconds, "Brier against seconds", f"Time in model calls of one forecast. {FRONTIER}"),
    "frontier_cost": (frontier.money, "Brier against money", f"Only models with a price in the roster. {FRONTIER}"),
    "sweep_brier": (cells.sweep_brier, "Brier against lookback", "Means over runs, bands one sample SD."),
    "sweep_accuracy": (cells.sweep_accuracy, "Accuracy against lookback", "Means over runs, bands one sample SD."),
}
