"""What a question claims, in the terms that the cue reading needs: names, content words, threshold, direction."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from hindcast_dagster.evidence.lexicon import FELL_THROUGH, NEGATIONS
from hindcast_dagster.evidence.numbers import Threshold, threshold

FAR: Final = 6
"""Words between a verb and a name beyond which the name is not its subject or object."""

_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019.&-][^\W_]+)*")
_STEM: Final = 5  # letters that decide whether two words are the same word in another form
_STOP: Final = frozenset(
    """
    a an and any are as at be been before being between but by can could did do does during for from had has have he
    her his how if in into is it its market more most no not of on one or other over resolve resolves she than that
    the their them then there these they this those to under until up was were what when where which who whom whose
    why will with within would yes you your question following according otherwise end year month week day time
    least
    """.split()  # noqa: SIM905 - words read best as words
)
_ASKS: Final = frozenset("will is are was were does do did has have had can could".split())  # noqa: SIM905
_JOINS: Final = frozenset("a an and by for of or the".split())  # noqa: SIM905 - words that stand within a subject
_CALENDAR: Final = frozenset(
    """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday jan feb mar apr jun jul aug sep sept oct nov dec q1 q2 q3 q4 utc et est edt pm
    am
    """.split()  # noqa: SIM905 - words read best as words
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A question as the cue reading sees it. All words are lower case."""

    names: frozenset[str]
    """Capitalised words, tickers and names that a passage must share to be about the question."""
    subject: frozenset[str]
    """Those of the names that the question begins with ("Will the *Chiefs* win the Super Bowl?"); often none."""
    words: frozenset[str]
    """Stems of the other content words."""
    adverse: frozenset[str]
    """Stems of the question's own words for failure: "Will it be delayed?" makes `delay` a sign for Yes."""
    negated: bool
    """The question asks whether something does not happen."""
    threshold: Threshold | None

    def about(self, text: str) -> bool:
        """Return whether a text is about the question: half of its names (or one and two more words), or its words.

        A text without the subject is about something else: the rivals in the same cup share all other names.
        """
        found = words(text)
        if self.subject and not self.subject & found:
            return False
        named, shared = len(self.names & found), len(self.words & {stem(word) for word in found})
        if not self.names:
            return shared >= max(2, (len(self.words) + 1) // 2)
        return named >= max(1, (len(self.names) + 1) // 2) or (named >= 1 and shared >= 2)  # noqa: PLR2004

    def mentions(self, text: str) -> bool:
        """Return whether a sentence names the subject, or where there is none, one of the question's names."""
        return bool((self.subject or self.names) & words(text))

    def distance(self, tokens: Iterable[str]) -> int:
        """Return how many words away the subject (or the first name) is; `FAR` when it is not near."""
        near = enumerate(islice(tokens, FAR))
        return next((at for at, token in near if self.mentions(token)), FAR)


def claim_of(question: str) -> Claim:
    """Return the claim of a question's text."""
    found = [(match.group(), match.start()) for match in _WORD.finditer(question)]
    names = frozenset(_plain(word) for word, at in found if _is_name(word, first=at == found[0][1]))
    content = {_plain(word) for word, _ in found} - names - _STOP - _CALENDAR
    return Claim(
        names=names,
        subject=_subject([_plain(word) for word, _ in found], names),
        words=frozenset(stem(word) for word in content if not word[0].isdigit()),
        adverse=frozenset(stem(match.group().lower()) for match in FELL_THROUGH.finditer(question)),
        negated=bool(NEGATIONS.search(question)),
        threshold=threshold(question),
    )


def _subject(asked: list[str], names: frozenset[str]) -> frozenset[str]:
    """Return the names that follow the opening "Will" without another word than those that join names."""
    if not asked or asked[0] not in _ASKS:
        return frozenset()
    return frozenset(takewhile(lambda word: word in names or word in _JOINS, asked[1:])) & names


def words(text: str) -> set[str]:
    """Return the words of a text, lower case, without possessives."""
    return {_plain(word) for word in _WORD.findall(text)}


def stem(word: str) -> str:
    """Return a word's first letters: enough to match its other forms."""
    return word[:_STEM]


def _plain(word: str) -> str:
    return re.sub(r"['\u2019]s$", "", word).lower()


def _is_name(word: str, *, first: bool) -> bool:
    plain = _plain(word)
    if plain in _STOP or plain in _CALENDAR or word[0].isdigit():
        return False
    inner = any(letter.isupper() for letter in word[1:])
    return inner or (word[0].isupper() and not first)
