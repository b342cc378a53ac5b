"""What no rule for texts can read is not kept: images and other media, sealed reasoning, raw token ids, texts spelled by logprobs.

Media and sealed blobs become keyed digests, so that a resent one is known again; ids become their number: the engine's record holds
those that count, masked. Works on the normal form, before redaction.
"""

from typing import Any, Final

from dataproxy.digests import KeyedDigests

_MEDIA_KEYS: Final = frozenset(("url", "image_url", "video_url", "audio_url", "file_url", "file_data", "data"))
_SEALED_KEYS: Final = frozenset(("signature", "encrypted_content", "encrypted_stdout", "thought_signature", "sealed_reasoning"))
_SEALED_KINDS: Final = frozenset(("base64", "redacted_thinking", "reasoning.encrypted", "image_generation_call", "compaction"))
_RAW_HOLDERS: Final = frozenset(("input_audio", "audio"))
_ID_KEYS: Final = frozenset(
    ("input_ids", "output_ids", "token_ids", "prompt_token_ids", "response_token_ids", "prompt_ids", "input_embeds")
)
_SPELLED: Final = frozenset(
    ("logprobs", "meta_info", "hidden_states", "prompt_logprobs", "output_token_logprobs", "input_token_logprobs", "top_logprobs")
)
_TELLING: Final = _MEDIA_KEYS | _SEALED_KEYS | _ID_KEYS | _SPELLED | {"result"}
_LEAST_BLOB = 16
"""Shorter strings are words: the data of a text source, a format."""


def conceal(value: Any, digests: KeyedDigests) -> Any:
    """A normal request or answer without what rules cannot read; tool schemas and plain texts are as they were."""
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if not _spells(name, item)}
    return {name: item if name == "tools" else _below(name, item, "", digests) for name, item in kept.items()}


def _below(key: str, value: Any, holder: str, digests: KeyedDigests) -> Any:
    if isinstance(value, str):
        return _blob(value, digests) if key in _SEALED_KEYS else _media(value, digests) if key in _MEDIA_KEYS else value
    if key in _ID_KEYS and isinstance(value, list):
        return {"num_ids": len(value)}
    if isinstance(value, list):
        return [_below(key, item, holder, digests) for item in value]
    if not isinstance(value, dict) or _is_plain(value):
        return value
    sealed = value.get("type") in _SEALED_KINDS or key in _RAW_HOLDERS
    found = {}
    for name, item in value.items():
        if _spells(name, item):
            continue
        raw = sealed and name in ("data", "result", "encrypted_content") and isinstance(item, str)
        found[name] = _blob(item, digests) if raw else _below(name, item, key, digests)
    return found


def _is_plain(value: dict[str, Any]) -> bool:
    """Words and numbers under names that say nothing to us, as nearly every message is."""
    if not value.keys().isdisjoint(_TELLING):
        return False
    for item in value.values():  # noqa: SIM110  # a third of the time of a generator, for each message of each call
        if isinstance(item, dict | list):
            return False
    return True


def _spells(name: str, value: Any) -> bool:
    return name in _SPELLED and isinstance(value, list | dict)


def _media(text: str, digests: KeyedDigests) -> str:
    """A data URL by its digest; any other URL is a text."""
    head, comma, payload = text.partition(";base64,")
    if not comma or not head.startswith("data:") or len(head) > 200:
        return text
    return f"{head};digest={_digest(payload, digests)};size={len(payload) * 3 // 4}"


def _blob(text: str, digests: KeyedDigests) -> str:
    return text if len(text) < _LEAST_BLOB else f"digest={_digest(text, digests)};size={len(text)}"


def _digest(text: str, digests: KeyedDigests) -> str:
    return digests.of(b"payload", text.encode("utf-8", "surrogatepass")).hex()
