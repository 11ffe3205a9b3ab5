"""Reading posts for and against a question without a language model: transparent, fast, the same on every machine.

A passage counts when it is about the question (its names and words). Cue words in the sentences that name the subject
say whether the thing happened, fell through or leans one way; hedges, hype and questions take strength away; numbers
are held against the question's threshold. `Reading.why` names every cue that counted. It is the yardstick that a
judge model has to beat, not a judge model: irony and long arguments are beyond it.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from hindcast_dagster.archive.protocol import Document
from hindcast_dagster.evidence import lexicon
from hindcast_dagster.evidence.claim import Claim, claim_of, stem
from hindcast_dagster.evidence.labels import Label, Tallies, Tally
from hindcast_dagster.evidence.numbers import amounts
from hindcast_dagster.questions.question import Question

REVISION: Final = 3
"""Raised when the same post may read otherwise: part of the version of whoever reads cues."""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_FLIP_REACH: Final = 24  # characters before a cue in which a negation flips it
_STRONG: Final = 2
_SENTENCES: Final = 60  # a very long post says what it says early
_CUES: Final = (
    (lexicon.HAPPENED, 2, "happened"),
    (lexicon.FELL_THROUGH, -2, "fell through"),
    (lexicon.LEANS_YES, 1, "leans yes"),
    (lexicon.LEANS_NO, -1, "leans no"),
)


class Reading(NamedTuple):
    """How one passage bears on both sides, and the cues that said so."""

    yes: Label
    no: Label
    why: tuple[str, ...]


class _Cue(NamedTuple):
    weight: int
    why: str


def read(claim: Claim, text: str, *, title: str = "") -> Reading:
    """Label one passage for both sides. A passage that is not about the question is irrel on both."""
    if not claim.about(f"{title}\n{text}"):
        return Reading("irrel", "irrel", ())
    titled = claim.about(title)
    sentences = [part for part in (title, *_SENTENCE.split(text)[:_SENTENCES]) if part.strip()]
    cues = [
        cue for part in sentences if titled or claim.mentions(part) or not claim.names for cue in _cues(claim, part)
    ]
    sign = -1 if claim.negated else 1
    return _reading([_Cue(sign * cue.weight, cue.why) for cue in cues])


def tallies(question: Question, documents: Iterable[Document]) -> Tallies:
    """Return both side tallies over documents as they were handed out."""
    claim = claim_of(question.text)
    readings = [read(claim, document.text, title=document.title or "") for document in documents]
    return Tallies(yes=Tally.of(found.yes for found in readings), no=Tally.of(found.no for found in readings))


def queries(question: Question, *, count: int) -> list[str]:
    """Return up to `count` search texts without a model: the question, its statement, its names, names with a cue."""
    claim = claim_of(question.text)
    statement = re.sub(r"^(?:will|is|does|did|has|can)\s+", "", question.text, flags=re.IGNORECASE).rstrip("? ")
    names = " ".join(sorted(claim.names)) or " ".join(sorted(claim.words))
    texts = (question.text, statement, names, f"{names} confirmed official news", f"{names} unlikely cancelled doubts")
    return list(dict.fromkeys(text.strip() for text in texts if text.strip()))[:count]


def _reading(cues: list[_Cue]) -> Reading:
    total = sum(cue.weight for cue in cues)
    why = tuple(cue.why for cue in cues)
    strongest = max((abs(cue.weight) for cue in cues if cue.weight * total > 0), default=0)
    if not total:
        return Reading("irrel", "irrel", why)
    own: Label = "strong" if strongest >= _STRONG and abs(total) >= _STRONG else "weak"
    other: Label = "contra" if own == "strong" else "irrel"
    return Reading(own, other, why) if total > 0 else Reading(other, own, why)


def _cues(claim: Claim, sentence: str) -> list[_Cue]:
    if sentence.rstrip().endswith("?"):
        return []  # a question asserts nothing
    found = [*_worded(claim, sentence), *_numbered(claim, sentence), *_beaten(claim, sentence)]
    loss = bool(lexicon.HEDGES.search(sentence)) + bool(lexicon.HYPE.search(sentence) or "!!" in sentence)
    return [_Cue(weight, cue.why) for cue in found if (weight := _weakened(cue.weight, loss))]


def _weakened(weight: int, loss: int) -> int:
    return max(abs(weight) - loss, 0) * (1 if weight > 0 else -1)


def _worded(claim: Claim, sentence: str) -> Iterable[_Cue]:
    for pattern, weight, kind in _CUES:
        for match in pattern.finditer(sentence):
            word = match.group().lower()
            value = abs(weight) if stem(word) in claim.adverse else weight
            before = sentence[max(0, match.start() - _FLIP_REACH) : match.start()]
            if lexicon.NEGATIONS.search(before):
                yield _Cue(-1 if value > 0 else 1, f"{kind}, negated: {word}")
            else:
                yield _Cue(value, f"{kind}: {word}")


def _numbered(claim: Claim, sentence: str) -> Iterable[_Cue]:
    if claim.threshold is None:
        return
    for amount in amounts(sentence):
        says = claim.threshold.says(amount)
        if says is not None:
            yield _Cue(1 if says else -1, f"number {amount.value:g} on the {'Yes' if says else 'No'} side")


def _beaten(claim: Claim, sentence: str) -> Iterable[_Cue]:
    """Who beats whom: the subject stands nearer to the verb on the side that decides."""
    for match in lexicon.BEATS.finditer(sentence):
        before = claim.distance(reversed(sentence[: match.start()].split()))
        after = claim.distance(iter(sentence[match.end() :].split()))
        if before != after:
            wins = before < after
            yield _Cue(2 if wins else -2, f"{'beats' if wins else 'is beaten'}: {match.group().lower()}")
