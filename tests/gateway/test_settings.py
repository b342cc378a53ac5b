"""Where settings come from, in which order, and what is an error."""

import os

import pytest

from dataproxy import keyfiles
from gateway.__main__ import open_journal
from gateway.settings import CONFIG_FILE, load
from tests.dataproxy.capture.halves import request_half, response_half


def test_arguments_beat_the_environment_which_beats_the_file(monkeypatch, tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text('port = 1\nhost = "10.0.0.1"\ndrain_timeout_s = 7\n')
    ours = {CONFIG_FILE: str(file), "HEADRACE_GATEWAY_PORT": "2", "HEADRACE_GATEWAY_HOST": "10.0.0.2"}
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    settings = load(["--port", "3"], ours)
    assert (settings.port, settings.host, settings.drain_timeout_s) == (3, "10.0.0.2", 7)


def test_a_list_of_engines_is_json(monkeypatch):
    monkeypatch.setenv("HEADRACE_GATEWAY_ENGINE_URLS", '["http://a:1", "http://b:2"]')
    assert load([], {}).engine_urls == ("http://a:1", "http://b:2")


@pytest.mark.parametrize("environment", [{"HEADRACE_GATEWAY_PORTS": "1"}, {"HEADRACE_GATEWAY_": "1"}])
def test_an_unknown_variable_of_ours_is_an_error(environment):
    with pytest.raises(ValueError, match="unknown settings"):
        load([], environment)


def test_an_unknown_setting_in_the_file_is_an_error(monkeypatch, tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text("prot = 1\n")
    monkeypatch.setenv(CONFIG_FILE, str(file))
    with pytest.raises(ValueError, match="prot"):
        load([], {CONFIG_FILE: str(file)})


def test_a_named_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load([], {CONFIG_FILE: str(tmp_path / "none.toml")})


@pytest.mark.parametrize(("durability", "waits"), [("strict", True), ("relaxed", False)])
async def test_the_gateways_journal_waits_for_the_disk_where_it_is_told_to(monkeypatch, tmp_path, durability, waits):
    synced = []
    pwritev = os.pwritev

    def noted(descriptor, buffers, offset, flags=0):
        synced.append(bool(flags & os.RWF_DSYNC))
        return pwritev(descriptor, buffers, offset, flags)

    monkeypatch.setattr(os, "pwritev", noted)
    monkeypatch.setattr(os, "fdatasync", lambda _: synced.append(True))
    where = ["--data-dir", str(tmp_path / "data"), "--config-dir", str(tmp_path / "config")]
    keyfiles.ensure(tmp_path / "config")
    journal = open_journal(load([*where, "--journal-durability", durability], {}))
    synced.clear()
    journal.begin(request_half("e1"))
    await journal.finish(response_half("e1"))
    assert synced and any(synced) is waits
    monkeypatch.undo()
    journal.close()
