"""Tells prose from code, logs and data, line by line: names are sought in prose only."""

import re
from collections.abc import Iterator

_SHORTEST = 4
_LONGEST = 2_000
"""Characters of a line that a model reads at once; a longer line is read in pieces that end at a sentence."""
_CODE = re.compile(
    r"^\s*(?:[{}\[\]</|+$@=]|(?:def|class|import|from|return|if|for|while|else|try|func|var|let|const|public|private|select|insert|"
    r"update|create)\b.*[:;({=]\s*$)|[{};]\s*$|^\s*(?:import|from|return) \S+$|[A-Za-z_]\w*\(|[=!<>]=|=>|->|::|\b\w+\.\w+\(|https?://\S+$"
)
_LOG = re.compile(r"^\W*(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|\w{3} +\d+ \d\d:|\[?(?:DEBUG|INFO|WARN|ERROR|TRACE)\b)|\b\w+=\S+ \w+=")
_SENTENCE_END = re.compile(r"[.!?。！？]+[\s]*")
_CJK = re.compile(r"[\u4e00-\u9fff]")


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """(where it begins, line) of each line of ``text`` that looks like prose, long ones in pieces."""
    at = 0
    for line in text.split("\n"):
        if _is_prose(line):
            yield from ((at + start, piece) for start, piece in _pieces(line))
        at += len(line) + 1


def has_chinese(line: str) -> bool:
    """Whether Chinese characters are in it."""
    return _CJK.search(line) is not None


def _is_prose(line: str) -> bool:
    stripped = line.strip()
    if len(stripped) < _SHORTEST or _LOG.search(stripped) or _CODE.search(stripped):
        return False
    letters = sum(character.isalpha() or character.isspace() for character in stripped)
    return letters / len(stripped) >= 0.6 and (" " in stripped or has_chinese(stripped))


def _pieces(line: str) -> Iterator[tuple[int, str]]:
    at = 0
    while len(line) - at > _LONGEST:
        ends = [match.end() for match in _SENTENCE_END.finditer(line, at, at + _LONGEST)]
        end = ends[-1] if ends else at + _LONGEST
        yield at, line[at:end]
        at = end
    yield at, line[at:]
