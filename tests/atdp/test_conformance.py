"""The protocol's conformance suite: golden events that every implementation must keep whole, and broken ones that it must refuse.

It tests ``atdp.codec``, or the module that ``ATDP_CODEC`` names: one with ``decode_event(bytes)``, which raises for a broken event,
and ``encode_event(event) -> bytes``. The files under ``golden/`` say all: ``valid/`` holds events, ``invalid/`` an event, the field
at fault, and whether the JSON Schema alone already refuses it.
"""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from atdp.errors import InvalidEvent
from atdp.schema import FILE, event_schema, text_of_schema

GOLDEN = Path(__file__).parent / "golden"
VALID = sorted((GOLDEN / "valid").glob("*.json"), key=str)
INVALID = sorted((GOLDEN / "invalid").glob("*.json"), key=str)
codec = importlib.import_module(os.environ.get("ATDP_CODEC", "atdp.codec"))
schema = jsonschema.Draft202012Validator(json.loads(FILE.read_text()))


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", VALID, ids=name_of)
def test_a_valid_event_comes_back_whole(path: Path) -> None:
    body = json.loads(path.read_text())
    again = json.loads(codec.encode_event(codec.decode_event(path.read_bytes())))
    assert without_defaults(again) == without_defaults(body)


@pytest.mark.parametrize("path", INVALID, ids=name_of)
def test_a_broken_event_is_refused(path: Path) -> None:
    with pytest.raises(Exception):  # noqa: B017  another implementation has errors of its own
        codec.decode_event(json.dumps(json.loads(path.read_text())["event"]).encode())


@pytest.mark.skipif("ATDP_CODEC" in os.environ, reason="another implementation's errors are its own")
@pytest.mark.parametrize("path", INVALID, ids=name_of)
def test_the_error_names_the_field(path: Path) -> None:
    case = json.loads(path.read_text())
    with pytest.raises(InvalidEvent) as refused:
        codec.decode_event(json.dumps(case["event"]).encode())
    assert refused.value.field == case["field"]
    assert str(refused.value).startswith(f"{case['field']}: ")


@pytest.mark.parametrize("path", VALID, ids=name_of)
def test_the_schema_takes_what_is_valid(path: Path) -> None:
    schema.validate(json.loads(path.read_text()))


@pytest.mark.parametrize("path", INVALID, ids=name_of)
def test_the_schema_refuses_what_the_file_says(path: Path) -> None:
    case = json.loads(path.read_text())
    assert schema.is_valid(case["event"]) != case["in_schema"]


def test_the_schema_on_file_is_the_codes() -> None:
    assert FILE.read_text() == text_of_schema(), "write it anew: python -m atdp.schema > atdp/schema/event.json"


def without_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """A default left out and a default written down are one event."""
    defaults = {name: field["default"] for name, field in event_schema()["properties"].items() if "default" in field}
    return {name: value for name, value in body.items() if name not in defaults or value != defaults[name]}
