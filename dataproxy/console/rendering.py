"""Pages from templates: everything is escaped, every text from agents goes through ``dataproxy.console.plain`` first."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dataproxy.console.charts import short
from dataproxy.console.plain import one_line
from dataproxy.console.sittings import Sitting
from dataproxy.console.words import place, reason
from dataproxy.ledger.bundle import ALSO_HELD
from dataproxy.services import Services
from dataproxy.store.keys import OPERATOR
from dataproxy.store.version_history import same_reward

_HERE = Path(__file__).parent
ASSETS = _HERE / "assets"
_THEMES = ("dark", "light")


def when(time_us: int | None) -> str:
    """UTC µs to the second; ``—`` for None."""
    if time_us is None:
        return "—"
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(time_us)


def number(value: float | None) -> str:
    """Three significant digits, or whole thousands; ``—`` for None."""
    return "—" if value is None else short(value)


def size(num_bytes: int) -> str:
    """Bytes as people say them."""
    amount = float(num_bytes)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def _who(request: Request, seat: Sitting | None) -> Callable[[str], str]:
    """Gives the role and agent of a key by its id; "" where the key is not one that whoever sits there may know of."""
    services: Services = request.app.state.services

    def who(key_id: str) -> str:
        found = services.keys.holder(key_id)
        if found is None or seat is None or seat.caller.tenant not in (OPERATOR, found.tenant):
            return ""
        return f"{found.role} {found.agent}".strip()

    return who


def _query(values: dict[str, object]) -> str:
    return urlencode({name: value for name, value in values.items() if value not in (None, "")}, errors="replace")


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "when": when,
        "number": number,
        "size": size,
        "line": one_line,
        "query": _query,
        "because": reason,
        "place": place,
    }
    made.tests["same_reward"] = same_reward
    digests = (hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(ASSETS.iterdir()))
    made.globals["release"] = hashlib.sha256("".join(digests).encode()).hexdigest()[:12]
    made.globals["also_in_evidence"] = ALSO_HELD
    return made


_TEMPLATES = _environment()


def read_templates() -> None:
    """Compile every template now, so that a release which is put in place under a running process changes none of its pages."""
    for name in _TEMPLATES.list_templates():
        _TEMPLATES.get_template(name)


def rendered(template: str, **context: object) -> str:
    """The text of ``template``, or of a piece of a page."""
    return _TEMPLATES.get_template(template).render(**context)


def render(request: Request, template: str, seat: Sitting | None = None, status: int = 200, **context: object) -> HTMLResponse:
    """The page ``template``, for whoever sits there."""
    theme = request.cookies.get("headrace-theme", "")
    known = {
        "seat": seat,
        "here": request.url.path,
        "theme": theme if theme in _THEMES else "",
        "who": _who(request, seat),
        "done": request.query_params.get("done", ""),
    }
    text = rendered(template, **known, **context)
    return HTMLResponse(text.encode("utf-8", "replace"), status)
