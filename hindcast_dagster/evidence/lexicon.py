"""The cue words of `cues`: ordinary English of news and forum posts, grouped by what they do to a claim.

What belongs here: patterns and nothing else, so that anybody can read and question the whole vocabulary. They are
general words; none is taken from a question, a market or the generated sample world.
"""

import re
from typing import Final


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w'])(?:{'|'.join(patterns)})(?![\w'])", re.IGNORECASE)


HAPPENED: Final = _words(
    r"confirm(?:s|ed|ing|ation)?", r"announc(?:e|es|ed|ing|ement)", r"official(?:ly)?", r"sign(?:s|ed)",
    r"approv(?:e|es|ed|al)", r"pass(?:es|ed)", r"w[oi]ns?", r"winner", r"secur(?:es|ed)", r"clinch(?:es|ed)?",
    r"agree(?:s|d|ment)", r"launch(?:es|ed)", r"releas(?:es|ed)", r"complet(?:es|ed)", r"grant(?:s|ed)",
    r"finali[sz]ed", r"reach(?:es|ed)", r"surpass(?:es|ed)", r"exceed(?:s|ed)", r"ratif(?:ies|ied)", r"elected",
    r"qualif(?:ies|ied)", r"advanc(?:es|ed)", r"on (?:track|schedule)", r"succeed(?:s|ed)", r"went through",
    r"all[- ]time high", r"record high", r"unanimous(?:ly)?", r"shipped", r"delivered", r"crossed", r"reelected",
    r"appointed", r"inaugurated", r"took (?:first|home|office)", r"has (?:begun|started)", r"went live", r"is out now",
)  # fmt: skip
"""Reports that something took place or was settled."""

FELL_THROUGH: Final = _words(
    r"den(?:y|ies|ied|ial)", r"cancel(?:s|l?ed|l?ing|lation)?", r"postpon(?:e|es|ed|ement)", r"delay(?:s|ed)?",
    r"rul(?:es|ed) out", r"reject(?:s|ed|ion)?", r"fail(?:s|ed|ure)?", r"los(?:es?|t|ing)", r"eliminat(?:e|es|ed|ion)",
    r"withdr(?:aws?|ew|awn|awal)", r"dropp?(?:ed|ing|s) out", r"call(?:ed|s|ing) off", r"no plans?", r"block(?:s|ed)",
    r"veto(?:es|ed)?", r"suspend(?:s|ed)", r"scrap(?:s|ped)", r"shelved?", r"halt(?:s|ed)", r"collaps(?:e|es|ed)",
    r"f(?:e|a)ll(?:s|ing)? short", r"missed", r"knocked out", r"pull(?:s|ed) out", r"stall(?:s|ed)", r"setback",
    r"debunk(?:s|ed)?", r"hoax", r"fake", r"untrue", r"abandon(?:s|ed)?", r"turn(?:s|ed) down", r"push(?:es|ed) back",
    r"off the table", r"behind schedule", r"beaten by", r"defeated by", r"declin(?:es|ed) to", r"refus(?:es|ed)",
    r"ruled against", r"backed out", r"disqualif(?:ies|ied)", r"ineligible", r"sidelined", r"bankrupt(?:cy)?",
)  # fmt: skip
"""Reports that something was denied, stopped, lost or put off."""

LEANS_YES: Final = _words(
    r"likely", r"expected to", r"(?:is|are|was|were|widely|fully) expected",
    r"(?<!what to )(?<!you can )(?<!can you )(?<!do you )expects? (?:[\w'-]+ ){0,3}?(?:to|will)",  # "what to expect"
    r"favou?rites?", r"probabl[ey]", r"on course", r"leads?", r"leading", r"ahead",
    r"momentum", r"surg(?:e|es|ed|ing)", r"poised", r"set to", r"plan(?:s|ned|ning)? to", r"optimistic", r"promising",
    r"close to", r"rall(?:y|ies|ied)", r"climb(?:s|ed|ing)?", r"ris(?:es|ing)", r"rose", r"strong(?:er)?",
    r"comfortabl[ey]", r"frontrunner", r"front[- ]runner", r"certain(?:ly)?", r"imminent", r"soon",
    r"dominat(?:es|ed|ing)",
)  # fmt: skip
"""Expectations and signs for it."""

LEANS_NO: Final = _words(
    r"unlikely", r"doubt(?:s|ful|ed)?", r"no (?:chance|way|sign|evidence|deal)", r"underdogs?", r"long ?shot",
    r"behind",
    r"trail(?:s|ed|ing)", r"struggl(?:e|es|ed|ing)", r"slump(?:s|ed|ing)?", r"s[ck]eptic(?:s|al|ism)?", r"impossible",
    r"far from", r"too late", r"weak(?:er)?", r"overrated", r"pessimis(?:m|tic)", r"slipp(?:ed|ing)",
    r"slid(?:es|ing)?",
    r"dropp(?:ed|ing)", r"crash(?:es|ed|ing)?", r"injur(?:y|ed|ies)", r"setbacks", r"deadlock(?:ed)?", r"stalemate",
    r"worse", r"worst", r"trouble", r"uncertain", r"nowhere near", r"overpriced", r"downgrad(?:e|ed|es)",
)  # fmt: skip
"""Doubts and signs against it."""

HEDGES: Final = _words(
    r"rumou?r(?:s|ed)?", r"might", r"(?-i:may)", r"maybe", r"perhaps", r"could", r"would", r"allegedly", r"apparently",
    r"supposedly", r"speculat(?:e|es|ed|ion|ive)", r"unconfirmed", r"i (?:think|guess|feel|believe|bet|hope|wish)",
    r"imh?o",
    r"if", r"predict(?:s|ed|ion|ions)?", r"hopefully", r"hop(?:e|ing)", r"possibl[ey]", r"unless", r"gut feeling",
    r"my (?:guess|take|bet|pick|prediction)", r"feels like", r"supposed to", r"should", r"wonder(?:ing)?", r"claims",
)  # fmt: skip
"""Words that turn a report into an opinion or a hearsay: strong becomes weak."""

HYPE: Final = _words(
    r"hyp(?:e|ed)", r"can'?t wait", r"omg", r"let'?s go+", r"moon(?:ing)?", r"to the moon", r"copium", r"hopium",
    r"insane(?:ly)?", r"goat", r"masterpiece", r"banger", r"obsessed", r"stans?", r"die ?hard", r"lol", r"lmao",
    r"manifesting",
    r"epic", r"goosebumps", r"amazing", r"love (?:this|it|them|him|her)", r"so excited", r"bet the house", r"all in",
)  # fmt: skip
"""Excitement. The paper (section 7.2) shows that it reads as evidence and is none: it costs a level."""

NEGATIONS: Final = re.compile(
    r"(?<!\w)(?:not|never|no|cannot|without|nobody|none|neither|hardly|barely|yet to|no longer|\w+n['\u2019]t)(?!\w)",
    re.IGNORECASE,
)
"""Flip a cue that follows within a few words."""

BEATS: Final = _words(
    r"beats?",
    r"defeat(?:s|ed)",
    r"edg(?:es|ed) out",
    r"outscor(?:es|ed)",
    r"knock(?:s|ed) out",
    r"overtak(?:es|en)",
    r"overtook",
)
"""Who stands before the word gains, who stands behind it loses."""
