"""The four-level labels, the tally of one side, and what two tallies say together (paper, section 4.1).

The coverage probe, the retrieval agent and the LLM-free `evidence_count` share these. Who gives a label (a judge model
or the cue words of `cues`) does not matter here.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self, get_args

Label = Literal["strong", "weak", "irrel", "contra"]
Quality = Literal["strong", "weak", "none"]

LABELS: Final[tuple[Label, ...]] = get_args(Label)
WEIGHTS: Final[dict[Label, int]] = {"strong": 2, "weak": 1, "irrel": 0, "contra": -1}

SHRINKAGE: Final = 4
"""Two strong blocks: with less evidence than this the contrast stays near zero (a barely mentioned market)."""
STRONG_SCORE: Final = 4
"""A side at or above this, with at least one strong block, makes the evidence strong."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many blocks (documents or passages) got each label for one side of a question. All counts are >= 0."""

    strong: int = 0
    weak: int = 0
    irrel: int = 0
    contra: int = 0
    unlabelled: int = 0
    """Blocks that got no usable label: counted, and worth nothing."""

    @classmethod
    def of(cls, labels: Iterable[Label | None]) -> Self:
        """Count labels; None is an unlabelled block."""
        counts = Counter("unlabelled" if label is None else label for label in labels)
        return cls(**counts)

    @property
    def score(self) -> int:
        """s_side = 2 strong + weak - contra (paper, section 4.1)."""
        return sum(weight * getattr(self, label) for label, weight in WEIGHTS.items())

    @property
    def mass(self) -> int:
        """2 strong + weak + contra: the largest absolute score that these blocks could have given."""
        return 2 * self.strong + self.weak + self.contra

    @property
    def total(self) -> int:
        """Every block, labelled or not."""
        return self.strong + self.weak + self.irrel + self.contra + self.unlabelled

    def as_dict(self) -> dict[str, int]:
        """Return the counts under the names of the coverage contract."""
        return {name: getattr(self, name) for name in (*LABELS, "unlabelled")}


class Tallies(NamedTuple):
    """Both sides of one question."""

    yes: Tally
    no: Tally


def contrast(yes: Tally, no: Tally) -> float:
    """Return the contrast in (-1, 1), positive towards Yes: the score difference over all evidence plus a shrinkage.

    The paper lets a judge state c; this is the same reading made by code, for judges that state none.
    """
    return (yes.score - no.score) / (yes.mass + no.mass + SHRINKAGE)


def quality(yes: Tally, no: Tally) -> Quality:
    """Return the evidence quality of two tallies: strong, weak or none (the S/W/N bins of the paper's table 1).

    strong: some side scores at least `STRONG_SCORE` with a strong block among its blocks; weak: some side scores above
    zero; none: the archive barely speaks about the question.
    """
    if any(side.score >= STRONG_SCORE and side.strong > 0 for side in (yes, no)):
        return "strong"
    return "weak" if max(yes.score, no.score) > 0 else "none"
