"""Names and bytes that are meant to do harm: text on every page that shows them, harmless in the header of a download."""

import asyncio
import re
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
from msgspec import structs
from sqlalchemy import select

from atdp.versions import PolicyVersion
from dataproxy.client.types import Feedback
from dataproxy.feedback import Desk, give_feedback
from dataproxy.store.schema import quarantine, trajectory
from dataproxy.store.versions import register_version
from tests.console.conftest import Stage
from tests.console.screenshots import pages
from tests.console.story import call
from tests.dataproxy.exchanges import exchange, user, write

pytestmark = pytest.mark.slow
_ODD = "\x1b\u202e"
_ACTS = frozenset(("iframe", "object", "embed", "base", "img", "u"))
_AS_TYPED = frozenset(("value", "href", "hx-get"))
"""Attributes that hold a name as it is: what a form sends back, and where a link leads."""


def hostile(what: str, odd: str = _ODD) -> str:
    """A name of ``what`` that would run, close what it stands in, and turn text around, if it were let."""
    return f"<u>{what}</u>\"'{odd}<script src=//x>{{{{7*7}}}}<a onclick=x>"


def shown(what: str, odd: str = "␛⟨U+202E⟩") -> str:
    """How a page begins to write it."""
    return f"&lt;u&gt;{what}&lt;/u&gt;&#34;&#39;{odd}"


def filtered(*names: str) -> str:
    """The list by hostile values of these filters."""
    return "/trajectories?" + urlencode({name: hostile(name) for name in names})


class Page(HTMLParser):
    """What a browser would make of a page: ``faults`` are the tags and attributes that act, and characters that turn text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Its attributes, too."""
        given = dict(attrs)
        ours = (given.get("src") or "").startswith("/console/assets/")
        if tag in _ACTS or (tag == "script" and not ours):
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            turned = name not in _AS_TYPED and set(_ODD) & set(value or "")
            acts = name.startswith("on") or (name == "href" and not (value or "").startswith(("/console", "#", "?")))
            if turned or acts or name == "style":
                self.faults.append(f"{tag} {name}={value!r}")

    def handle_data(self, data: str) -> None:
        """Nothing in it may turn it around, and no template may have counted."""
        if set(_ODD) & set(data) or re.search(r"</u>\W+49", data):
            self.faults.append(data)


@pytest.fixture(scope="module")
def named(stage: Stage) -> str:
    """The trajectory of an agent whose every name is hostile, rewarded; and a version that was measured by a hostile name."""
    proxy, now_us = stage.proxy, stage.proxy.clock()
    tools = [{"type": "function", "function": {"name": hostile("tool"), "parameters": {}}}]
    said = [user("Go on."), call("c1", hostile("tool"), "{}"), {"role": "tool", "tool_call_id": hostile("call"), "content": "done"}]
    asked, got = exchange(
        [*said, {"role": "tool", "tool_call_id": "c1", "content": "done"}],
        agent=hostile("agent"),
        session=hostile("session"),
        prompt=[71, 72],
        started_us=now_us,
        ended_us=now_us + 1,
        headers={"x-headrace-release": hostile("release")},
        tools=tools,
    )
    journal = proxy.journal()
    asyncio.run(write(journal, (structs.replace(asked, model=hostile("model")), structs.replace(got, worker=hostile("worker")))))
    journal.close()
    proxy.drain()
    ((name,),) = proxy.rows(select(trajectory.c.trajectory_id).where(trajectory.c.agent == hostile("agent")))
    measured = PolicyVersion("v000005", "v000004", "retired", now_us, "v", batch_id=None, metrics={hostile("metric"): 1.0})
    given = Feedback(name, value=1.0, name=hostile("reward", ""), source="user", explanation=hostile("word"))
    with proxy.services.database.write() as connection:
        register_version(connection, measured, "internal", now_us)
        desk = Desk("acme", proxy.services.mac_secret, proxy.services.digests("acme"))
        give_feedback(connection, desk, given, "key-judge", now_us)
    return str(name)


def test_every_page_shows_hostile_names_as_text(stage: Stage, named: str) -> None:
    operator, found = stage.browser("admin", ""), {}
    reviewer = stage.browser("admin")
    reviewer.get(f"/holds?scope=trajectory&target={named}")
    reviewer.post("/holds", tenant="acme", scope="trajectory", target=named, reason=hostile("reason"))
    names = stage.names | {"orders": named, "hostile": named}
    paths = pages(names) | {
        "metric": "/versions/v000005",
        "compare": "/compare?first=v000004&second=v000005",
        "by agent": filtered("agent", "tool", "release"),
        "by model": filtered("model", "session"),
        "by nothing": filtered("text"),
        "refused": filtered("reason"),
    }
    for name, path in paths.items():
        assert operator.get(path).status_code == {"fault": 404, "refused": 400}.get(name, 200), path
        found[name] = operator.page
        assert Page(operator.page).faults == [], path
    expected = {
        "trajectory": ("agent", "session", "tool", "call", "model", "release", "worker"),
        "trajectories": ("agent", "model"),
        "by agent": ("agent", "tool", "release"),
        "by model": ("agent", "model", "session"),
        "by nothing": ("text",),
        "refused": ("reason",),
        "holds": ("reason",),
        "live": ("worker",),
        "learning": ("metric",),
        "metric": ("metric",),
        "compare": ("metric",),
    }
    missing = [(name, what) for name, all_of in expected.items() for what in all_of if shown(what) not in found[name]]
    assert missing == []
    for what, then in (("reward", "&lt;script src"), ("word", '<i class="odd" title=')):
        assert shown(what, then) in found["trajectory"], what
    for name in ("by agent", "by model"):
        assert f"/console/trajectories/{named}" in found[name], "a hostile name finds what is called so"


@pytest.mark.parametrize("tenant", ['x"\r\nset-cookie: a=b;', "../<u>tenant</u>\u202e"])
def test_a_download_is_named_by_harmless_characters_alone(stage: Stage, tenant: str) -> None:
    browser = stage.browser("reviewer", tenant)
    browser.get("/trajectories")
    assert Page(browser.page).faults == []
    for path, ending in (("/exports/jsonl", "jsonl"), ("/exports/parquet", "parquet"), ("/evidence", "zip")):
        answer = browser.get(path)
        assert answer.status_code == 200 and "set-cookie" not in answer.headers, path
        assert re.fullmatch(rf'attachment; filename="headrace-[\w.-]+\.{ending}"', answer.headers["content-disposition"], re.A)


def test_bytes_that_are_no_text_are_shown_as_such_or_lie_in_the_quarantine(stage: Stage) -> None:
    """Half a surrogate pair by its escape, an overlong slash, half a pair by its bytes: an answer keeps them, a request may not."""
    odd = b'"half \\ud83d of one, over\xc0\xaflong, \xed\xa0\x80"'
    proxy, now_us = stage.proxy, stage.proxy.clock()
    asked, got = exchange([user("Say something odd.")], session="odd-1", prompt=[81], started_us=now_us + 1)
    refused, answered = exchange([user("x")], session="odd-2", started_us=now_us + 2)
    journal = proxy.journal()
    asyncio.run(
        write(
            journal,
            (asked, structs.replace(got, body=b'{"choices":[{"index":0,"message":{"role":"assistant","content":' + odd + b"}}]}")),
            (structs.replace(refused, body=b'{"model":"tiny","messages":[{"role":"user","content":' + odd + b"}]}"), answered),
        )
    )
    journal.close()
    proxy.drain()
    browser = stage.browser()
    ((name,),) = proxy.rows(select(trajectory.c.trajectory_id).where(trajectory.c.session_id == "odd-1"))
    browser.get(f"/trajectories/{name}")
    assert "half \\ud83d of one, over\ufffd\ufffdlong, " in browser.text and Page(browser.page).faults == []
    reasons = dict(proxy.rows(select(quarantine.c.event_id, quarantine.c.reason)))
    assert reasons[refused.event_id] == "request_not_json"
    assert refused.event_id in browser.get("/quarantine").text and "of one" not in browser.text
    for path in ("/trajectories?text=%ED%A0%80", "/trajectories?agent=over%C0%AFlong", "/access?target=%FF%FE"):
        answer = browser.get(path)
        assert answer.status_code == 200 and answer.content.decode("utf-8", "strict"), path
