"""People that the small model misses, for it knows few rare names: those whom the words around them name, and rare words in a row.

Place: beside the English model in the lane for names, on the same lines of prose.
"""

import re
from collections.abc import Container, Iterator

_WORD = r"[A-ZÀ-ÖØ-ÞĀ-Ž][\w’'\-]*[\w]"
_TITLECASE = r"[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ'’]{1,20}(?:-[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]{1,20})?"
_PARTICLES = r"(?: (?:de|da|del|della|di|du|la|le|van|von|der|den|ter|bin|al|el|y))*"
_PERSON = rf"({_WORD}(?:{_PARTICLES}[ ]{_WORD}){{0,3}})"
_TITLE = (
    r"\b(?:[Mm]rs?|[Mm]s|[Mm]iss|[Mm]x|[Dd]r|[Pp]rof|[Ss]ir|[Mm]adam|Herrn?|Frau|Monsieur|Madame|Mme|Señora?|Sra?|Signora?)\.? "
)
_GREETING = r"^\s*(?:[Hh]i|[Hh]ello|[Hh]ey|[Dd]ear|[Tt]hanks|[Tt]hank you|[Hh]allo|[Ll]ieber?|[Bb]onjour|[Hh]ola|[Cc]iao),? "
_SAYS_WHO = (
    r"call(?:s|ed)? me|named|known as|[Ii] am|[Ii]'m|[Tt]his is|signed by|written by|[Ii]ch bin|[Ii]ch heiße|[Jj]e suis|[Mm]e llamo"
)
_ASKS = r"can|could|would|will|please|thanks|thank|I|we|you|how|what|where|when|why|is|are|do|did"
_DOES = r"said|says|asked|told|wrote|writes|replied|shouted|called|thinks|thought|wants|wanted|lives|lived|works|worked"
_CUES = tuple(
    re.compile(before + _PERSON + after)
    for before, after in (
        (_TITLE, ""),
        (_GREETING, r"(?=[,.!:;]|\s*$)"),
        (r"\b[Nn]ames? (?:is|was|=|:)? ?", ""),
        (r"\b[Nn]ame(?:'s|:|\?) (?:\w+: )?", ""),
        (rf"\b(?:{_SAYS_WHO}) ", ""),
        (r"^\s*", rf"(?=, (?:{_ASKS})\b)"),
        (r"(?:^|[.!?\"] )", rf"(?= (?:{_DOES}) )"),
    )
)
_IN_A_ROW = re.compile(rf"(?<![\w.]){_TITLECASE}(?:{_PARTICLES} {_TITLECASE}){{1,3}}(?!\w)")
_NO_NAMES = (
    "A An And At But By Can For From Good Great He Her Here His How However I If In Is It Its Just My No Not Of Ok Okay On Or Our "
    "Please She So Some Sorry Thank Thanks That The Their Then There These They This Those To Today Tomorrow Unfortunately We Well "
    "What When Where Which While Who Why Yes Yesterday You Your All Any Everyone Everybody Somebody Someone Nobody Team Support "
    "Sir Madam Mr Mrs Ms Miss Dr Prof"
)
_NO_NAME = frozenset(_NO_NAMES.split())
"""Words with a capital that begin sentences and are nobody's name."""


def named_by_cue(line: str) -> Iterator[tuple[int, int]]:
    """Characters [start, end) of each person in ``line`` whom the words around name."""
    for cue in _CUES:
        for match in cue.finditer(line):
            if match[1].split()[0] not in _NO_NAME:
                yield match.span(1)


def named_by_rarity(line: str, known: Container[str]) -> Iterator[tuple[int, int]]:
    """Characters [start, end) of each row of two to four words with a capital, one of which is no word that is ``known``."""
    for match in _IN_A_ROW.finditer(line):
        words = match[0].split()
        skipped = 0
        while words and words[0] in _NO_NAME:
            skipped += len(words.pop(0)) + 1
        if len(words) >= 2 and any(word not in known and word.lower() not in known for word in words if word[0].isupper()):
            yield match.start() + skipped, match.end()
