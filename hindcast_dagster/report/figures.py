"""The figures of a report: each is a function from frames to a Vega-Lite specification (Altair), or None without data.

Values are passed inline and every field is typed, so that a text from outside is data in a chart and never markup.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import polars as pl

from hindcast_dagster.clock import iso
from hindcast_dagster.report import theme
from hindcast_dagster.report.gather import Gathered, NotMeasured
from hindcast_dagster.report.theme import PALETTES, WIDTH, Mode, arm_name, colours
from hindcast_dagster.scoring.inputs import BASELINE, MARKET

FOLDED: Final = 0.04
"""A topic below this share is drawn as part of Other, as in the paper's figure 3."""
PANELS: Final = 6
"""Panels of a small multiple: more cells than this are shown best first, and the caption says so."""
ROW: Final = 34


class Figure(NamedTuple):
    """One figure, rendered for both modes."""

    name: str
    title: str
    caption: str
    light: str
    dark: str
    png: bytes


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
                caption,
                theme.data_uri(theme.svg(light)),
                theme.data_uri(theme.svg(dark)),
                theme.png(light),
            )
    return made


def _spec(chart: Any, mode: Mode) -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict()
    return spec | {"config": theme.config(mode)}


def _data(frame: pl.DataFrame) -> Any:
    import altair as alt

    return alt.Data(values=frame.to_dicts())


def _named(gathered: Gathered, frame: pl.DataFrame) -> pl.DataFrame:
    names = {slug: facts.name for slug, facts in gathered.facts.items()}
    return frame.with_columns(
        pl.col("model").replace_strict(names, default=pl.col("model"), return_dtype=pl.String).alias("name"),
        pl.col("arm").map_elements(arm_name, return_dtype=pl.String).alias("arm_name"),
    )


def _arm_scale(arms: list[str], mode: Mode) -> Any:
    import altair as alt

    found = colours(arms, mode)
    return alt.Scale(domain=[arm_name(arm) for arm in arms], range=[found[arm] for arm in arms])


def _order(frame: pl.DataFrame) -> list[str]:
    known = list(theme.ARM_NAMES)
    return sorted(frame["arm"].unique().to_list(), key=lambda arm: (known.index(arm) if arm in known else 99, arm))


def headline(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier per model, one mark per arm with its SD over runs, and the baselines as rules."""
    import altair as alt

    cells = _named(gathered, gathered.cells.filter(pl.col("n") > 0))
    asked = cells.filter(pl.col("model") != BASELINE).with_columns(
        (pl.col("brier") - pl.col("brier_sd").fill_null(0)).alias("low"),
        (pl.col("brier") + pl.col("brier_sd").fill_null(0)).alias("high"),
    )
    if not asked.height:
        return None
    rules = cells.filter((pl.col("model") == BASELINE) & pl.col("arm").is_in([MARKET, "constant_half", "base_rate"]))
    order = asked.sort("brier")["name"].unique(maintain_order=True).to_list()
    arms = _order(pl.concat([asked.select("arm"), rules.select("arm")]))
    colour = alt.Color(
        "arm_name:N", scale=_arm_scale(arms, mode), legend=alt.Legend(title=None, orient="top", columns=3)
    )
    y = alt.Y("name:N", sort=order, title=None)
    x = alt.X("brier:Q", title="Brier score, lower is better", scale=alt.Scale(zero=False, padding=12))
    keep = ["name", "arm_name", "brier", "low", "high"]
    points = alt.Chart(_data(asked.select(keep)))
    span = points.mark_rule(strokeWidth=2, opacity=0.35, color=PALETTES[mode].muted).encode(
        y=y, x=alt.X("min(brier):Q"), x2="max(brier):Q"
    )
    bars = points.mark_rule(strokeWidth=2).encode(y=y, x=alt.X("low:Q"), x2="high:Q", color=colour)
    dots = points.mark_point(filled=True, size=110, opacity=1).encode(y=y, x=x, color=colour)
    lines = (
        alt.Chart(_data(rules.select("arm_name", "brier")))
        .mark_rule(strokeDash=[5, 4], strokeWidth=1.6)
        .encode(x=x, color=colour)
    )
    return alt.layer(lines, span, bars, dots).properties(width=WIDTH - 130, height=max(ROW * len(order), 2 * ROW))


def topics(gathered: Gathered, mode: Mode) -> Any:
    """Draw the share and the count of each topic; small ones are folded into Other (paper, figure 3)."""
    import altair as alt

    questions = gathered.given.questions
    if not questions.height:
        return None
    counts = questions.group_by("topic").len("count").with_columns((pl.col("count") / questions.height).alias("share"))
    folded = (
        counts.with_columns(
            pl.when(pl.col("share") < FOLDED).then(pl.lit("Other")).otherwise(pl.col("topic")).alias("topic")
        )
        .group_by("topic")
        .agg(pl.col("count").sum(), pl.col("share").sum())
        .with_columns((pl.col("topic") == "Other").alias("last"))
        .sort(["last", "count", "topic"], descending=[False, True, False])
        .with_columns(
            pl.format("{} %  ({})", (100 * pl.col("share")).round(1), pl.col("count")).alias("label"), pl.col("share")
        )
        .drop("last")
    )
    y = alt.Y("topic:N", sort=folded["topic"].to_list(), title=None)
    base = alt.Chart(_data(folded)).encode(
        y=y, x=alt.X("share:Q", title="Share of questions", axis=alt.Axis(format="%"))
    )
    bars = base.mark_bar(color=PALETTES[mode].series["retrieval"], cornerRadiusEnd=2, height=18)
    labels = base.mark_text(align="left", dx=6, color=PALETTES[mode].muted).encode(text="label:N")
    return (bars + labels).properties(width=WIDTH - 150, height=28 * folded.height)


def topic_effects(gathered: Gathered, mode: Mode) -> Any:
    """Draw recoveries minus regressions per topic (paper, figure 6), one panel per arm."""
    import altair as alt

    effects = gathered.tables["effects"].filter(pl.col("by") == "topic")
    if not effects.height:
        return None
    shown = effects.sort("net", descending=True).with_columns(
        pl.col("arm").map_elements(arm_name, return_dtype=pl.String).alias("arm_name"),
        (pl.col("net") >= 0).alias("gain"),
        pl.format("{} ({} / {})", pl.col("net"), pl.col("recoveries"), pl.col("regressions")).alias("label"),
    )
    colour = alt.condition("datum.net >= 0", alt.value(PALETTES[mode].good), alt.value(PALETTES[mode].bad))
    order = shown["group"].unique(maintain_order=True).to_list()
    reach = max(int(shown["net"].abs().max() or 1), 1) * 1.6  # type: ignore[arg-type]
    base = alt.Chart().encode(
        y=alt.Y("group:N", sort=order, title=None),
        x=alt.X("net:Q", title="Recoveries minus regressions", scale=alt.Scale(domain=[-reach, reach])),
    )
    bars = base.mark_bar(height=16, cornerRadiusEnd=2).encode(color=colour)
    right = base.transform_filter("datum.net >= 0").mark_text(align="left", dx=5).encode(text="label:N")
    left = base.transform_filter("datum.net < 0").mark_text(align="right", dx=-5).encode(text="label:N")
    panel = alt.layer(bars, right, left).properties(width=WIDTH - 160, height=26 * len(order))
    keep = ["arm_name", "group", "net", "label"]
    data = _data(shown.select(keep))
    if shown["arm"].n_unique() == 1:
        return panel.properties(data=data)
    return panel.facet(row=alt.Row("arm_name:N", title=None), data=data)


def _best_cells(gathered: Gathered, *, with_market: bool) -> pl.DataFrame:
    """Return at most PANELS cells, lowest Brier first."""
    cells = gathered.cells.filter(pl.col("n") > 0).sort("brier")
    market = (pl.col("model") == BASELINE) & (pl.col("arm") == MARKET)
    asked = cells.filter(pl.col("model") != BASELINE).head(PANELS - with_market)
    kept = pl.concat([asked, cells.filter(market)]) if with_market else asked
    return _named(gathered, kept).with_columns(
        pl.when(pl.col("model") == BASELINE)
        .then(pl.col("arm_name"))
        .otherwise(pl.col("name") + ", " + pl.col("arm_name").str.to_lowercase())
        .alias("panel")
    )


def reliability(gathered: Gathered, mode: Mode) -> Any:
    """Draw the share of Yes against the mean forecast of each equal-width bin, mark size by bin size."""
    import altair as alt

    cells = _best_cells(gathered, with_market=True)
    bins = gathered.tables["calibration"].filter(pl.col("form") == "equal_width")
    shown = bins.join(cells.select("model", "arm", "panel"), on=["model", "arm"], how="inner")
    if not shown.height:
        return None
    unit = alt.Scale(domain=[0, 1])
    axis = {"values": [0, 0.5, 1], "format": ".1~f"}
    x = alt.X("mean_p:Q", scale=unit, title="Mean forecast", axis=alt.Axis(**axis))
    y = alt.Y("share_yes:Q", scale=unit, title="Share of Yes", axis=alt.Axis(**axis))
    base = alt.Chart().encode(x=x, y=y)
    diagonal = (
        alt.Chart(alt.Data(values=[{"mean_p": 0, "share_yes": 0}, {"mean_p": 1, "share_yes": 1}]))
        .mark_line(strokeDash=[4, 4], color=PALETTES[mode].muted, strokeWidth=1)
        .encode(x=x, y=y)
    )
    colour = PALETTES[mode].series["retrieval"]
    line = base.mark_line(color=colour, strokeWidth=1.5)
    dots = base.mark_point(filled=True, color=colour, opacity=0.9).encode(
        size=alt.Size("n:Q", scale=alt.Scale(range=[25, 220]), legend=None)
    )
    panel = alt.layer(diagonal, line, dots).properties(width=150, height=150)
    order = cells["panel"].to_list()
    keep = ["panel", "mean_p", "share_yes", "n"]
    return panel.facet(
        facet=alt.Facet("panel:N", title=None, sort=order), columns=3, data=_data(shown.select(keep).sort("mean_p"))
    )


def scatter(gathered: Gathered, mode: Mode) -> Any:
    """Draw the forecast (mean over runs) against the market's price at t0, one mark per question."""
    import altair as alt

    cells = _best_cells(gathered, with_market=False)
    shown = (
        gathered.scored.filter(pl.col("price_at_t0").is_not_null())
        .join(cells.select("model", "arm", "panel"), on=["model", "arm"], how="inner")
        .group_by("panel", "question_id")
        .agg(pl.col("prob_yes").mean(), pl.col("price_at_t0").first(), pl.col("outcome").first())
        .with_columns(pl.when(pl.col("outcome") == 1).then(pl.lit("Yes")).otherwise(pl.lit("No")).alias("resolved"))
        .sort("panel", "question_id")
    )
    if not shown.height:
        return None
    axis = {"values": [0, 0.5, 1], "format": ".1~f"}
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("price_at_t0:Q", scale=unit, title="Market price at t0", axis=alt.Axis(**axis))
    y = alt.Y("prob_yes:Q", scale=unit, title="Forecast", axis=alt.Axis(**axis))
    diagonal = (
        alt.Chart(alt.Data(values=[{"price_at_t0": 0, "prob_yes": 0}, {"price_at_t0": 1, "prob_yes": 1}]))
        .mark_line(strokeDash=[4, 4], color=PALETTES[mode].muted, strokeWidth=1)
        .encode(x=x, y=y)
    )
    resolved = alt.Scale(domain=["Yes", "No"], range=[PALETTES[mode].good, PALETTES[mode].bad])
    dots = (
        alt.Chart()
        .mark_point(filled=True, size=34, opacity=0.7)
        .encode(
            x=x,
            y=y,
            color=alt.Color("resolved:N", scale=resolved, legend=alt.Legend(title="Resolved", orient="top")),
            shape=alt.Shape("resolved:N", scale=alt.Scale(domain=["Yes", "No"], range=["circle", "triangle"])),
        )
    )
    panel = alt.layer(diagonal, dots).properties(width=150, height=150)
    data = _data(shown.select("panel", "prob_yes", "price_at_t0", "resolved"))
    return panel.facet(facet=alt.Facet("panel:N", title=None, sort=cells["panel"].to_list()), columns=3, data=data)


def chosen_market(gathered: Gathered) -> str | None:
    """Return the question whose price moved most before its t0, of those that some model forecast."""
    if isinstance(gathered.prices, NotMeasured):
        return None
    asked = gathered.scored.filter(pl.col("model") != BASELINE)["question_id"].unique().to_list()
    known = gathered.given.questions.filter(pl.col("id").is_in(asked)).select(pl.col("id").alias("market_id"), "t0")
    moves = (
        gathered.prices.join(known, on="market_id", how="inner")
        .filter(pl.col("at") < pl.col("t0"))
        .group_by("market_id")
        .agg(pl.len().alias("points"), (pl.col("price").max() - pl.col("price").min()).alias("move"))
        .filter(pl.col("points") > 2)  # noqa: PLR2004 - two points are no trajectory
        .sort(["move", "market_id"], descending=[True, False])
    )
    return str(moves["market_id"][0]) if moves.height else None


def trajectory(gathered: Gathered, mode: Mode) -> Any:
    """Draw one market's price over time, its t0, and what each arm forecast there (paper, figure 1)."""
    import altair as alt

    market = chosen_market(gathered)
    if market is None or isinstance(gathered.prices, NotMeasured):
        return None
    question = gathered.given.questions.filter(pl.col("id") == market).row(0, named=True)
    series = gathered.prices.filter(pl.col("market_id") == market).select(
        pl.col("at").map_elements(iso, return_dtype=pl.String).alias("when"), "price"
    )
    forecasts = _named(
        gathered,
        gathered.scored.filter((pl.col("question_id") == market) & (pl.col("model") != BASELINE))
        .group_by("model", "arm")
        .agg(pl.col("prob_yes").mean())
        .sort("model", "arm"),
    ).with_columns(pl.lit(iso(question["t0"])).alias("when"))
    arms = _order(forecasts)
    x = alt.X("when:T", title=None, axis=alt.Axis(format="%d %b %Y", tickCount=5, labelAngle=0))
    scale = alt.Scale(domain=[0, 1])
    line = (
        alt.Chart(_data(series))
        .mark_line(interpolate="step-after", color=PALETTES[mode].series["market_price"], strokeWidth=2)
        .encode(x=x, y=alt.Y("price:Q", scale=scale, title="Probability of Yes"))
    )
    cut = alt.Chart(_data(forecasts.select("when").head(1))).mark_rule(strokeDash=[3, 3]).encode(x=x)
    name = cut.mark_text(align="right", dx=-6, y=8, text="t0", color=PALETTES[mode].muted)
    marks = (
        alt.Chart(_data(forecasts.select("when", "prob_yes", "arm_name", "name")))
        .mark_point(filled=True, size=90, shape="square", opacity=0.9)
        .encode(
            x=x,
            y=alt.Y("prob_yes:Q", scale=scale),
            color=alt.Color(
                "arm_name:N", scale=_arm_scale(arms, mode), legend=alt.Legend(title="Forecasts", orient="top")
            ),
        )
    )
    return alt.layer(line, cut, name, marks).properties(width=WIDTH - 60, height=240)


def knowledge(gathered: Gathered, mode: Mode) -> Any:
    """Draw accuracy against each model's knowledge cutoff; models without a published one cannot be drawn."""
    import altair as alt

    cutoffs = {slug: facts.cutoff for slug, facts in gathered.facts.items() if facts.cutoff is not None}
    cells = _named(gathered, gathered.cells.filter((pl.col("n") > 0) & pl.col("model").is_in(list(cutoffs))))
    if cells["model"].n_unique() < 2:  # noqa: PLR2004 - one model shows no relation
        return None
    shown = cells.with_columns(
        pl.col("model")
        .replace_strict(cutoffs, return_dtype=pl.Int64)
        .map_elements(iso, return_dtype=pl.String)
        .alias("at")
    )
    colour = alt.Color("arm_name:N", scale=_arm_scale(_order(shown), mode), legend=alt.Legend(title=None, orient="top"))
    base = alt.Chart(_data(shown.select("name", "arm_name", "at", "accuracy"))).encode(
        x=alt.X("at:T", title="Knowledge cutoff", axis=alt.Axis(format="%b %Y", tickCount=6)),
        y=alt.Y("accuracy:Q", title="Accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False, padding=14)),
    )
    dots = base.mark_point(filled=True, size=100).encode(color=colour)
    names = base.mark_text(align="left", dx=9, fontSize=11, color=PALETTES[mode].muted).encode(text="name:N")
    return (dots + names).properties(width=WIDTH - 80, height=260)


def frontier(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier against tokens per forecast: what an arm's accuracy costs."""
    import altair as alt

    tokens = gathered.tables["metrics"].filter(pl.col("metric") == "tokens").select("model", "arm", "value")
    cells = gathered.cells.filter(pl.col("n") > 0).join(tokens, on=["model", "arm"], how="inner")
    shown = _named(gathered, cells.filter(pl.col("value") > 0))
    if not shown.height:
        return None
    base = alt.Chart(_data(shown.select("name", "arm_name", "brier", "value"))).encode(
        x=alt.X("value:Q", title="Tokens per forecast", scale=alt.Scale(type="log", nice=False, padding=24)),
        y=alt.Y("brier:Q", title="Brier score", scale=alt.Scale(zero=False, padding=16)),
    )
    colour = alt.Color("arm_name:N", scale=_arm_scale(_order(shown), mode), legend=alt.Legend(title=None, orient="top"))
    dots = base.mark_point(filled=True, size=100).encode(color=colour)
    names = base.mark_text(align="left", dx=9, fontSize=11, color=PALETTES[mode].muted).encode(text="name:N")
    return (dots + names).properties(width=WIDTH - 80, height=260)


def _sweep_chart(gathered: Gathered, mode: Mode, metric: str, title: str, form: str) -> Any:
    import altair as alt

    if not gathered.sweep.height:
        return None
    shown = _named(gathered, gathered.sweep).with_columns(
        (pl.col(metric) - pl.col(f"{metric}_sd").fill_null(0)).alias("low"),
        (pl.col(metric) + pl.col(f"{metric}_sd").fill_null(0)).alias("high"),
        pl.col(metric).alias("value"),
    )
    colour = alt.Color("arm_name:N", scale=_arm_scale(_order(shown), mode), legend=alt.Legend(title=None, orient="top"))
    base = alt.Chart(_data(shown.select("name", "arm_name", "fraction", "value", "low", "high"))).encode(
        x=alt.X(
            "fraction:Q",
            title="t0 as a share of the market's life",
            axis=alt.Axis(format="%", values=[0.25, 0.5, 0.75, 1]),
        ),
        color=colour,
        strokeDash=alt.StrokeDash("name:N", legend=alt.Legend(title=None, orient="top")),
    )
    y = {"title": title, "scale": alt.Scale(zero=False), "axis": alt.Axis(format=form)}
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", **y), y2="high:Q")
    line = base.mark_line(point=True).encode(y=alt.Y("value:Q", **y))
    return (band + line).properties(width=WIDTH - 80, height=240)


def sweep_brier(gathered: Gathered, mode: Mode) -> Any:
    """Draw Brier against the lookback fraction (paper, figure 5)."""
    return _sweep_chart(gathered, mode, "brier", "Brier score", ".3f")


def sweep_accuracy(gathered: Gathered, mode: Mode) -> Any:
    """Draw accuracy against the lookback fraction (paper, figure 7)."""
    return _sweep_chart(gathered, mode, "accuracy", "Accuracy", "%")


FIGURES: Final[dict[str, tuple[Draw, str, str]]] = {
    "headline": (
        headline,
        "Brier score by model and arm",
        "Marks are means over runs, bars one sample SD over runs. Dashed lines: forecasters that ask no model.",
    ),
    "topics": (
        topics,
        "Topics of the questions",
        "Share and, in brackets, number of questions; topics below 4 % are part of Other.",
    ),
    "topic_effects": (
        topic_effects,
        "Where an arm helps and where it hurts",
        (
            "Pairs of runs that the arm gets right and zero-shot wrong, minus the reverse; in brackets both counts. "
            "Topics with at least four markets."
        ),
    ),
    "reliability": (
        reliability,
        "Reliability",
        (
            "Equal-width bins, low edge included; mark size is the number of forecasts. On the dashed line a forecast "
            "means what it says. At most five cells, lowest Brier first, beside the market."
        ),
    ),
    "scatter": (
        scatter,
        "Forecast against the market's price",
        "One mark per question, mean over runs. At most six cells, lowest Brier first.",
    ),
    "trajectory": (
        trajectory,
        "One market over time",
        "The question whose price moved most before its t0: price history, t0, and the forecasts made there.",
    ),
    "knowledge": (
        knowledge,
        "Accuracy against knowledge cutoff",
        "Only models whose maker publishes a cutoff. A rise towards the right would hint at remembered outcomes.",
    ),
    "frontier": (frontier, "Brier against tokens", "Prompt and reply tokens of one forecast, all calls together."),
    "sweep_brier": (sweep_brier, "Brier against lookback", "Means over runs, bands one sample SD."),
    "sweep_accuracy": (sweep_accuracy, "Accuracy against lookback", "Means over runs, bands one sample SD."),
}
