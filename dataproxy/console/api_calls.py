"""Between a page's form and the API's own functions: whose it is, its free text redacted, and what was answered."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from fastapi import Response

from dataproxy.api.identity import scope
from dataproxy.client.types import KeyInfo
from dataproxy.services import Services

T = TypeVar("T")


def answered(answer: Response, type_: type[T]) -> T:
    """What a function of the API answered."""
    return msgspec.json.decode(bytes(answer.body), type=type_)


def tenant_of(caller: KeyInfo, form: Mapping[str, str]) -> str:
    """Whom a form speaks of: the caller's own tenant; an operator names one."""
    own = scope(caller)
    return form.get("tenant", "").strip() if own is None else own


def redacted(services: Services, caller: KeyInfo, form: Mapping[str, str], name: str) -> str:
    """A field of free text, fit to be kept.

    Raises:
        RedactionFailed: it cannot be redacted for certain.
    """
    text = form.get(name, "").strip()
    return services.redactors.of(tenant_of(caller, form)).redact_text(text).text if text else ""
