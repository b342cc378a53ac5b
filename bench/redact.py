"""Measures redaction: speed on text and on sessions, worst inputs, recall by kind, precision, over-redaction, names.

``python -m bench.redact [--quick]`` prints one JSON line last and keeps it in ``bench/results/redact.json``. Times are CPU time of
one core, the least of three where one input is timed. Nothing is downloaded: clean text is what lies on the machine.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

from bench.redact_cases import cases, look_alike
from bench.redact_clean import clean_texts, prose
from bench.redact_sessions import session, tokens
from bench.redact_templates import chinese_hits, template_hits
from bench.redact_values import KINDS
from dataproxy.redact import Redactor
from dataproxy.redact.detector import Detector
from dataproxy.redact.names import SpacyNames

RESULT = Path(__file__).parent / "results" / "redact.json"
_SIZE = 200_000
_UNITS = (
    ".", "a", "@", "a@", "a@b.", "ana@example.com ", "1", "0", "1 ", "12 ", "4 1 ", "4111 ", "4111111111111111 ",
    "+1 ", "(415) 555-0123 ", "415-555-0123 ", "06 12 34 56 78 ", "13800138000 ", "DE89 ", "DE89370400440532013000 ", "secret",
    "token=", "password: ", "PASSWORD=", "\"password\": \"", "cookie: a=", "&sig=", "passport X1234567 ", "ssn 123456789 ", "\\n",
    "\\", "%41", "&#64;", "\\u0041", "eyJ", "eyJhbGciOi.", "://a:b@", "ab://a:", "Bearer ", "sk-", "gsk_", "::::", "1.1.1.1 ", "1.",
    "é", "中", "\u200b", "0x1234567890123456789012345678901234567890 ", "bc1qqqqqqqqqqqqq ", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2 ",
    "-----BEGIN PRIVATE KEY-----", "deadbeef", "a1", "tel 5551234 ", "phone ", "{\"a\":1}", "AKIA", "00 44 ", "_1", "中1",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.redact", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases and texts, under two minutes")
    quick: bool = parser.parse_args().quick
    recall, precision = _accuracy(count=300 if quick else 1000)
    clean = list(clean_texts(1_000_000 if quick else 5_000_000))
    worst_ms, worst_unit = _worst()
    names_share, names_kb_s = _names(20_000 if quick else 200_000)
    result = {
        "bench": "redact", "mb_s_core": _speed(clean), "p99_ms_20kb": _p99_ms(100 if quick else 400), "worst_ms": worst_ms,
        "worst_unit": worst_unit, "recall_low95": recall, "precision": precision, "over_redaction": _over_redaction(clean),
        "cases": 300 if quick else 1000, "exchange": _exchanges(20 if quick else 100),
        "templates": _templates(500 if quick else 3000), "names": {
            "over_redaction": names_share, "kb_s_core": names_kb_s,
            "chinese": _chinese(300 if quick else 1500),
        },
    }  # fmt: skip
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def _accuracy(count: int) -> tuple[dict[str, float], float]:
    """Lower 95 % bound of recall by kind, and the share of detections that are values, look-alikes mixed in one to one."""
    detector, recall, right, wrong = Detector(b"bench"), {}, 0, 0
    for name in KINDS:
        hits = 0
        for case in cases(name, count, seed=20_261):
            start, end = len(case.before), len(case.before) + len(case.shown)
            found = detector.detect(case.text)
            hit = sum(d.kind == case.kind and d.start <= start and d.end >= end for d in found)
            hits, right, wrong = hits + min(hit, 1), right + hit, wrong + len(found) - hit
        recall[name] = _low95(hits, count)
    rng = random.Random(20_262)
    wrong += sum(len(detector.detect(look_alike(rng))) for _ in range(count * len(KINDS)))
    return recall, round(right / (right + wrong), 4)


def _low95(hits: int, count: int) -> float:
    """Lower bound of the Wilson interval at 95 %."""
    z, share = 1.96, hits / count
    middle, width = share + z * z / (2 * count), z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return round((middle - width) / (1 + z * z / count), 4)


def _templates(count: int) -> dict[str, dict[str, float]]:
    """Recall on presidio-evaluator's templates: the share that was found whole, its lower bound, how many there were."""
    counts = template_hits(count, seed=20_263)
    return {
        kind: {"recall": round(hits / total, 4), "low95": _low95(hits, total), "n": total}
        for kind, (hits, total) in sorted(counts.items())
    }


def _chinese(count: int) -> dict[str, float]:
    """The same of names in Chinese, and the share of what stands around them that would be replaced too."""
    hits, total, beside = chinese_hits(count, seed=20_267)
    return {"recall": round(hits / total, 4), "low95": _low95(hits, total), "n": total, "beside": round(beside, 5)}


def _exchanges(num_sessions: int) -> dict[str, int]:
    """Median CPU µs of an exchange of about 2 KB: the next turn of a session, and the same call once more."""
    redactor, rng = Redactor(b"k" * 32, 16, tokens()), random.Random(20_264)
    next_turn, again, sizes = [], [], []
    for _ in range(num_sessions):
        for exchange in session(rng, 8):
            size = len(json.dumps([exchange.request, exchange.response]))
            redact = partial(redactor.redact_exchange, exchange)
            taken = _cpu_ms(redact)
            if 1500 <= size <= 3000:
                next_turn.append(taken)
                again.append(min(_cpu_ms(redact) for _ in range(3)))
                sizes.append(size)
    middle = len(sizes) // 2
    return {
        "bytes": sorted(sizes)[middle],
        "next_turn_us": round(sorted(next_turn)[middle] * 1e3),
        "again_us": round(sorted(again)[middle] * 1e3),
    }


def _speed(texts: list[str]) -> float:
    detector = Detector(b"bench")
    taken = _cpu_ms(lambda: [detector.detect(text) for text in texts])
    return round(sum(map(len, texts)) / taken / 1e3, 2)


def _p99_ms(count: int) -> float:
    """99th percentile over texts of 20 KB with values of every kind in them."""
    rng, times = random.Random(20_265), []
    pool = [case.text for name in KINDS for case in cases(name, 50, seed=20_266)]
    everything = "\n".join(topics.values())
    for _ in range(count):
        at = rng.randrange(len(everything) - 20_000)
        text = (everything[at : at + 18_000] + " " + " ".join(rng.sample(pool, 20)))[:20_000]
        times.append(_fresh_ms(text))
    return round(sorted(times)[math.ceil(0.99 * count) - 1], 2)


def _worst() -> tuple[float, str]:
    """Milliseconds of the slowest input of 200 KB, and what it repeats."""
    return max((round(_fresh_ms(unit * (_SIZE // len(unit))), 1), unit) for unit in _UNITS)


def _over_redaction(texts: list[str]) -> float:
    """Share of the characters of clean texts that would be replaced."""
    detector = Detector(b"bench")
    replaced = sum(found.end - found.start for text in texts for found in detector.detect(text))
    return round(replaced / sum(map(len, texts)), 5)


def _names(num_characters: int) -> tuple[float, float]:
    """(share of the characters of prose about software that the lane for names would replace, KB a second)."""
    finder, text = SpacyNames(frozenset(("PERSON", "PLACE", "ORG"))), prose()[:num_characters]
    finder.find("Warm up, please.", math.inf)
    begin = time.process_time()
    found = finder.find(text, math.inf)
    taken_s = time.process_time() - begin
    return round(sum(name.end - name.start for name in found) / len(text), 5), round(len(text) / taken_s / 1e3, 1)


def _fresh_ms(text: str) -> float:
    """Milliseconds for a text that was not seen before, the least of three."""
    fresh = [Detector(str(n).encode()) for n in range(3)]
    return min(_cpu_ms(partial(detector.detect, text)) for detector in fresh)


def _cpu_ms(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1e3


if __name__ == "__main__":
    main()
