"""Parses a request once: one pass finds its top-level fields and checks that it is JSON; the rest stays raw bytes.

Fields that reach into the engine are ours (architecture, invariant 6) and are taken out; otherwise the body is relayed as it came.
"""

import msgspec

from gateway.errors import Refused

_CHOOSES_STATE = ("cache_salt", "conversation_id", "extra_key", "input_ids", "lora_path", "session_id", "session_params")
_CHOOSES_NAMES = ("custom_labels", "request_id", "rid")
_CHOOSES_PLACE = ("data_parallel_rank", "disagg_prefill_dp_rank", "priority", "routed_dp_rank", "routing_key")
_RUNS_CODE = ("custom_logit_processor", "custom_params")
ENGINE_FIELDS = frozenset((*_CHOOSES_STATE, *_CHOOSES_NAMES, *_CHOOSES_PLACE, *_RUNS_CODE))
"""Request fields of SGLang 0.5, of any dialect, that reach into the engine; ``bootstrap_*`` as well."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class AgentRequest(msgspec.Struct, frozen=True):
    """``body`` is what goes to the engine: the agent's bytes, unless ``removed`` names fields that were taken out."""

    body: bytes
    model: str
    fields: dict[str, msgspec.Raw]
    removed: tuple[str, ...]

    def text(self, name: str) -> str:
        """The string in field ``name``; empty if it is absent or no string."""
        return _text(self.fields.get(name))

    def metadata(self, name: str) -> str:
        """The string in ``metadata.<name>``; empty if it is absent or no string."""
        raw = self.fields.get("metadata")
        try:
            return _text(_object.decode(raw).get(name)) if raw is not None else ""
        except msgspec.DecodeError:
            return ""


def parse_request(body: bytes) -> AgentRequest:
    """The request in ``body``.

    Raises:
        Refused: 400, with what is wrong: not UTF-8, not JSON, no object, nested too deeply, no model.
    """
    try:
        if not body.isascii():
            body.decode()
        fields = _fields.decode(body)
        model = _string.decode(fields["model"])
    except UnicodeDecodeError as error:
        raise Refused(400, "invalid_json", f"the body is not UTF-8: byte {error.start}") from error
    except RecursionError as error:
        raise Refused(400, "invalid_json", "the body is nested too deeply") from error
    except KeyError as error:
        raise Refused(400, "missing_model", "name a model; GET /v1/models lists them", param="model") from error
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid_request", f"the body must be a JSON object with a string `model`: {error}") from error
    except msgspec.DecodeError as error:
        raise Refused(400, "invalid_json", f"the body is not valid JSON: {error}") from error
    if ENGINE_FIELDS.isdisjoint(fields) and "bootstrap_" not in "\n".join(fields):
        return AgentRequest(body, model, fields, ())
    removed = tuple(name for name in fields if name in ENGINE_FIELDS or name.startswith("bootstrap_"))
    for name in removed:
        del fields[name]
    return AgentRequest(msgspec.json.encode(fields) if removed else body, model, fields, removed)


def _text(raw: msgspec.Raw | None) -> str:
    try:
        return _string.decode(raw) if raw is not None else ""
    except msgspec.DecodeError:
        return ""
