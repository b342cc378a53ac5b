"""What plain texts say without a model: a user's correction, the outcome of a test run. Pure; silence is no signal.

Rules of thumb with few false alarms, in English; what they miss is left to a judge.
"""

import re
from contextlib import suppress

import msgspec

_MOST_CHARACTERS = 20_000
_OPENING = 160
_CORRECTION = re.compile(
    r"""(?:^|[.!?\n]\s*)(?:
        no(?=[,.!:;]|\s+(?:that|this|it|you|i|not|the|wrong)\b) | nope\b | wrong\b | incorrect\b | not\s+(?:quite|right|correct)\b
        | (?:that|this|it)(?:['’]s|\s+is|\s+was)\s+(?:not|n['’]t|wrong|incorrect)\b | (?:that|this|it)\s+(?:isn|wasn)['’]t\b
        | that\s+(?:did|does)(?:\s+not|n['’]t)\s+work\b | still\s+(?:not|wrong|broken|fails?|failing|does(?:n['’]t|\s+not))\b
        | you\s+(?:misunderstood|misread|are\s+wrong|got\s+(?:it|that|this)\s+wrong|forgot|missed|ignored)\b
        | i\s+(?:said|meant|asked\s+(?:for|you\s+to)|did(?:n['’]t|\s+not)\s+(?:ask|mean|say))\b
        | (?:please\s+)?(?:undo|revert)\s+(?:that|this|it)\b | (?:please\s+)?try\s+again\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_COUNTS = re.compile(r"(\d+)\s+(passed|failed|failures?|errors?)\b", re.IGNORECASE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in .*?^(?:OK|FAILED \(([^)]*)\))", re.MULTILINE | re.DOTALL)
_UNITTEST_BAD = re.compile(r"(?:failures|errors)=(\d+)")
_GO = re.compile(r"^(ok|FAIL)\s+\S+", re.MULTILINE)


def is_correction(text: str) -> bool:
    """Whether a user's message begins by saying that the answer before it was wrong."""
    return _CORRECTION.search(text.strip()[:_OPENING]) is not None


def share_passed(text: str) -> float | None:
    """The share of tests that passed in a run's output: pytest, unittest, cargo, jest, go, or JSON with ``passed`` and ``failed``.

    None where it is no outcome that is understood, or nothing ran.
    """
    text = text[-_MOST_CHARACTERS:].strip()
    for read in (_json, _unittest, _counted, _go):
        if (found := read(text)) is not None and sum(found) > 0:
            return found[0] / sum(found)
    return None


def _json(text: str) -> tuple[int, int] | None:
    if text.startswith("{"):
        with suppress(msgspec.DecodeError, RecursionError):
            body = msgspec.json.decode(text)
            passed, failed = body.get("passed"), body.get("failed")
            if type(passed) is int and type(failed) is int and passed >= 0 and failed >= 0:
                return passed, failed
    return None


def _unittest(text: str) -> tuple[int, int] | None:
    runs = list(_UNITTEST.finditer(text))
    if not runs:
        return None
    failed = sum(map(int, _UNITTEST_BAD.findall(runs[-1][2] or "")))
    return max(int(runs[-1][1]) - failed, 0), failed


def _counted(text: str) -> tuple[int, int] | None:
    """The last line with counts; cargo's has a line for each crate, which add up."""
    lines = [line for line in text.splitlines() if _COUNTS.search(line)]
    of_crates = [line for line in lines if line.startswith("test result:")]
    chosen = of_crates or lines[-1:]
    if not chosen:
        return None
    passed = failed = 0
    for line in chosen:
        for number, what in _COUNTS.findall(line):
            passed += int(number) if what.lower() == "passed" else 0
            failed += int(number) if what.lower() != "passed" else 0
    return passed, failed


def _go(text: str) -> tuple[int, int] | None:
    verdicts = _GO.findall(text)
    return (verdicts.count("ok"), verdicts.count("FAIL")) if verdicts else None
