"""Reads on record: who, what and why, committed before a byte of what was read is returned."""

from collections.abc import Iterable
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Header

from dataproxy.client.types import KeyInfo
from dataproxy.errors import Refused
from dataproxy.services import Services
from dataproxy.store.access import What, record_access

_MOST_CHARACTERS = 500


def _purpose(x_headrace_purpose: str = Header("")) -> str:
    purpose = unquote(x_headrace_purpose)
    if len(purpose) > _MOST_CHARACTERS:
        raise Refused(f"a purpose has at most {_MOST_CHARACTERS} characters")
    return purpose


Purpose = Annotated[str, Depends(_purpose)]
"""Why somebody reads, percent-encoded in a header of the request; it is redacted and kept."""


def put_on_record(
    services: Services, caller: KeyInfo, owners: Iterable[str], what: What, target: str = "", purpose: str = ""
) -> None:
    """``caller`` is about to read ``what`` named ``target`` of each of ``owners``; free text is redacted first.

    Raises:
        RedactionFailed: the purpose or the target cannot be redacted for certain.
    """
    texts = {owner: [_redacted(services, owner, text) for text in (target, purpose)] for owner in sorted(set(owners))}
    with services.database.write() as connection:
        for owner, (named, why) in texts.items():
            record_access(connection, caller, owner, what, named, services.now_us(), why)


def _redacted(services: Services, owner: str, text: str) -> str:
    return services.redactors.of(owner).redact_text(text).text if text else ""
