"""Puts the page together: one HTML file with its style, its script, its figures and its data inside.

Texts of markets and models are not trusted: the template escapes everything, data for the script is JSON that cannot
close its element, figures are images, and a content security policy admits this file's own script only and no network.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import polars as pl
from markupsafe import Markup

from hindcast_dagster.report import questions, theme, trust
from hindcast_dagster.report.absent import NotMeasured
from hindcast_dagster.report.figures.catalogue import Figure
from hindcast_dagster.report.gather import Gathered
from hindcast_dagster.report.tables import choice, cost, effects, leaks, quality, scores
from hindcast_dagster.report.tables.fields import name_of, number
from hindcast_dagster.scoring import ranking
from hindcast_dagster.scoring.inputs import BASELINE, MARKET

_UNSAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(gathered: Gathered, figures: Mapping[str, Figure]) -> str:
    """Return the report as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("hindcast_dagster.report", "web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _asset("report.js")
    template = environment.get_template("report.html.j2")
    return template.render(
        **_content(gathered),
        figures=figures,
        style=Markup(_asset("report.css")),  # noqa: S704 - a file of this package
        script=Markup(script),  # noqa: S704 - a file of this package
        script_hash=_csp_hash(script),
        data=Markup(embed(questions.document(gathered))),  # noqa: S704 - `embed` leaves no markup
    )


def embed(document: Any) -> str:
    """Return JSON that is safe inside a script element: no `<`, `>` or `&`, so nothing in it can close the element."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return "".join(_UNSAFE.get(character, character) for character in text)


def _asset(name: str) -> str:
    return files(__package__).joinpath("web", name).read_text(encoding="utf-8")


def _csp_hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _content(gathered: Gathered) -> dict[str, Any]:
    stats = gathered.given.eval_set_stats
    outcomes = dict(gathered.given.questions.group_by("outcome", maintain_order=True).len().iter_rows())
    return {
        "name": gathered.eval_set,
        "questions": gathered.given.questions.height,
        "events": gathered.given.questions["event_id"].drop_nulls().n_unique(),
        "yes": outcomes.get("Yes", 0),
        "no": outcomes.get("No", 0),
        "period": trust.period(gathered),
        "policy": stats.get("policy"),
        "gap": stats.get("gap_days"),
        "version": gathered.manifest.version,
        "sources": gathered.sources + gathered.given.sources,
        "banners": trust.banners(gathered),
        "missing": gathered.missing,
        "not_measured": gathered.not_measured,
        "cards": trust.cards(gathered),
        "tiles": tiles(gathered),
        "headline": scores.headline(gathered),
        "runs": scores.per_run(gathered).slim(),
        "sections": sections(gathered),
        "topics": sorted(gathered.given.questions["topic"].unique().to_list()),
    }


def sections(gathered: Gathered) -> list[dict[str, Any]]:
    """Return the sections between headline and questions: id, title, lead, figures, tables. Empty tables drop out."""
    effect = effects.effects
    found: list[dict[str, Any]] = [
        {
            "id": "retrieval",
            "title": "Does the archive help?",
            "lead": "The same model with and without evidence, question by question and run by run.",
            "figures": ["topic_effects", "sweep_brier", "sweep_accuracy"],
            "tables": [
                effects.comparisons(gathered, "retrieval", "Arm minus zero-shot"),
                effect(gathered, "model", "Recoveries and regressions by model"),
                effect(gathered, "topic", "Recoveries and regressions by topic"),
                effect(gathered, "duration", "Recoveries and regressions by duration"),
                effect(gathered, "stop_reason", "Recoveries and regressions by stop reason"),
                scores.bin_sizes(gathered),
                quality.sweep(gathered),
            ],
        },
        {
            "id": "market",
            "title": "Against the market",
            "lead": "The price at t0 is a human forecast made from the same past. Beating it is the bar.",
            "figures": ["scatter", "trajectory"],
            "tables": [
                effects.comparisons(gathered, "market", "Cell minus market price"),
                quality.blend(gathered),
                quality.event_sums(gathered),
            ],
        },
        {
            "id": "calibration",
            "title": "Calibration",
            "lead": "Whether things forecast at 70 % happen 70 % of the time.",
            "figures": ["reliability"],
            "tables": [quality.calibration(gathered)],
        },
        {
            "id": "choice",
            "title": "Which questions, and why",
            "lead": "How the listing became this set, what the archive said of it, and which models may remember it.",
            "figures": [],
            "tables": [
                choice.funnel(gathered),
                choice.probes(gathered),
                choice.taken(gathered),
                choice.exposure(gathered),
            ],
        },
        {
            "id": "strata",
            "title": "Where scores differ",
            "lead": "Brier by topic, by how long a market stayed open, and by what a model may remember.",
            "figures": ["topics", "knowledge"],
            "tables": [
                scores.strata_table(gathered, "topic", "Brier by topic"),
                scores.strata_table(gathered, "duration", "Brier by duration"),
                scores.strata_table(gathered, "beyond_cutoff", "Brier by knowledge cutoff"),
            ],
        },
        {
            "id": "leakage",
            "title": "What a leak would have bought",
            "lead": "The same agent in worlds that are wrong on purpose, and what the choice of markets does.",
            "figures": [],
            "tables": [
                leaks.inflation(gathered),
                leaks.placebo(gathered),
                leaks.paper(gathered),
                leaks.selection(gathered),
                leaks.detectives(gathered),
                leaks.recalls(gathered),
            ],
        },
        {
            "id": "cost",
            "title": "What it costs",
            "lead": "Tokens, time and money of one forecast, and how long the archive takes to answer.",
            "figures": ["frontier", "frontier_seconds", "frontier_cost"],
            "tables": [cost.economy(gathered), cost.latency(gathered)],
        },
    ]
    absent = {"retrieval": gathered.comparisons, "market": gathered.comparisons, "cost": gathered.latency}
    for section in found:
        section["tables"] = [table.slim() for table in section["tables"] if not table.empty]
        part = absent.get(section["id"])
        section["absent"] = part if isinstance(part, NotMeasured) else None
        section["unmeasured"] = gathered.leaks.not_measured if section["id"] == "leakage" else []
    return found


def tiles(gathered: Gathered) -> list[tuple[str, str, str]]:
    """Return the numbers at the top: (label, value, remark)."""
    market = gathered.cells.filter((pl.col("n") > 0) & (pl.col("arm") == MARKET))
    found = [("Questions", f"{gathered.given.questions.height:,}", trust.period(gathered))]
    if gathered.cells.filter((pl.col("n") > 0) & (pl.col("model") != BASELINE)).height:
        found.append(_best(gathered))
    if market.height:
        found.append(("Market's Brier at t0", number(market["brier"][0]).text, f"{market['n'][0]:,} questions"))
    card = trust.cards(gathered)[0]
    found.append(("Leak audit", card.headline, card.facts[1][1] + " documents" if len(card.facts) > 1 else ""))
    return found


def _best(gathered: Gathered) -> tuple[str, str, str]:
    """Return the best model, if any answered enough of what the others answered to have a place."""
    label, places = "Best Brier of a model", ranking.ranking(gathered.scored)
    if not places:
        return (label, "Not ranked", f"fewer than {ranking.MIN_QUESTIONS} questions that models answered alike")
    first = places[0]
    name = f"{name_of(gathered, first.cell.model)}, {theme.arm_name(first.cell.arm).lower()}"
    shared = f"that {len(places)} cells answered" if len(places) > 1 else "and no other cell to compare"
    common = f"{first.questions:,} questions {shared}"
    beside = [] if first.market is None else [f"market there {number(first.market).text}"]
    return (label, number(first.brier).text, " \N{MIDDLE DOT} ".join([name, common, *beside]))
