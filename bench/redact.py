"""Measures the pattern lane: speed on text, time at 20 KB, worst inputs of 200 KB, recall by kind, precision, over-redaction.

``python -m bench.redact [--quick]`` prints one JSON line last and keeps it in ``bench/results/redact.json``. Speeds are CPU time of
one core; clean text is the standard library's own sources and reference topics, so that nothing is downloaded.
"""

import argparse
import json
import math
import random
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from bench.redact_cases import KINDS, cases, look_alike
from dataproxy.redact.detector import Detector

RESULT = Path(__file__).parent / "results" / "redact.json"
_CODE = ("json", "asyncio", "http", "logging", "concurrent", "unittest", "xml", "sqlite3")
_SIZE = 200_000
_UNITS = (
    ".", "a", "@", "a@", "a@b.", "ana@example.com ", "1", "0", "1 ", "12 ", "4 1 ", "4111 ", "4111111111111111 ",
    "+1 ", "(415) 555-0123 ",
    "415-555-0123 ", "06 12 34 56 78 ", "13800138000 ", "DE89 ", "DE89370400440532013000 ", "secret", "token=",
    "password: ", "\\n", "\\",
    "%41", "&#64;", "\\u0041", "eyJ", "eyJhbGciOi.", "://a:b@", "ab://a:", "Bearer ", "sk-", "::::", "1.1.1.1 ", "1.",
    "é", "中", "\u200b",
    "-----BEGIN PRIVATE KEY-----", "deadbeef", "a1", "tel 5551234 ", "phone ", "{\"a\":1}", "AKIA", "00 44 ", "_1", "中1",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.redact", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases and texts")
    quick: bool = parser.parse_args().quick
    recall, precision = _accuracy(count=300 if quick else 1000)
    clean = list(_clean_texts(1_000_000 if quick else 5_000_000))
    worst_ms, worst_unit = _worst()
    result = {
        "bench": "redact", "mb_s_core": _speed(clean), "p99_ms_20kb": _p99_ms(100 if quick else 400), "worst_ms": worst_ms,
        "worst_unit": worst_unit, "recall_low95": recall, "precision": precision, "over_redaction": _over_redaction(clean),
    }  # fmt: skip
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def _detector() -> Detector:
    return Detector(b"bench")


def _accuracy(count: int) -> tuple[dict[str, float], float]:
    """Lower 95 % bound of recall by kind, and the share of detections that are values, look-alikes mixed in one to one."""
    detector, recall, right, wrong = _detector(), {}, 0, 0
    for name in KINDS:
        hits = 0
        for case in cases(name, count, seed=0):
            start, end = len(case.before), len(case.before) + len(case.shown)
            found = detector.detect(case.text)
            hit = sum(d.kind == case.kind and d.start <= start and d.end >= end for d in found)
            hits, right, wrong = hits + min(hit, 1), right + hit, wrong + len(found) - hit
        recall[name] = round(_low95(hits, count), 4)
    rng = random.Random(0)
    wrong += sum(len(detector.detect(look_alike(rng))) for _ in range(count * len(KINDS)))
    return recall, round(right / (right + wrong), 4)


def _low95(hits: int, count: int) -> float:
    """Lower bound of the Wilson interval at 95 %."""
    z, share = 1.96, hits / count
    middle, width = share + z * z / (2 * count), z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - width) / (1 + z * z / count)


def _clean_texts(num_bytes: int) -> Iterator[str]:
    """Code, prose and logs with nobody's data in them, about a third of each, in pieces of at most 20 KB."""
    root = Path(sysconfig.get_paths()["stdlib"])
    code = "\n".join(path.read_text() for name in _CODE for path in sorted((root / name).glob("*.py")))
    prose = "\n".join(topics.values())
    rng = random.Random(1)
    logs = "\n".join(look_alike(rng) for _ in range(num_bytes // 180))
    for text in (code, prose, logs):
        part = text[: num_bytes // 3]
        yield from (part[at : at + 20_000] for at in range(0, len(part), 20_000))


def _speed(texts: list[str]) -> float:
    detector = _detector()
    begin = time.process_time()
    for text in texts:
        detector.detect(text)
    return round(sum(map(len, texts)) / (time.process_time() - begin) / 1e6, 2)


def _p99_ms(count: int) -> float:
    """99th percentile over texts of 20 KB with values of every kind in them."""
    detector, rng, times = _detector(), random.Random(2), []
    pool = [case.text for name in KINDS for case in cases(name, 50, seed=2)]
    prose = "\n".join(topics.values())
    for _ in range(count):
        at = rng.randrange(len(prose) - 20_000)
        text = prose[at : at + 18_000] + " " + " ".join(rng.sample(pool, 20))
        begin = time.process_time()
        detector.detect(text[:20_000])
        times.append((time.process_time() - begin) * 1e3)
    return round(sorted(times)[math.ceil(0.99 * count) - 1], 2)


def _worst() -> tuple[float, str]:
    """Milliseconds of the slowest input of 200 KB, and what it repeats."""
    detector = _detector()
    slowest = (0.0, "")
    for unit in _UNITS:
        text = unit * (_SIZE // len(unit))
        begin = time.process_time()
        detector.detect(text)
        slowest = max(slowest, (round((time.process_time() - begin) * 1e3, 1), unit))
    return slowest


def _over_redaction(texts: list[str]) -> float:
    """Share of the characters of clean texts that would be replaced."""
    detector = _detector()
    replaced = sum(found.end - found.start for text in texts for found in detector.detect(text))
    return round(replaced / sum(map(len, texts)), 5)


if __name__ == "__main__":
    main()
