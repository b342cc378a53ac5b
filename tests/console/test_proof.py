"""The page of proof: every row of a trajectory, which of them is not what the log says, and the key that signed it."""

import html

import pytest
from sqlalchemy import func, select

from dataproxy.api.audit_routes import audit_steps
from dataproxy.client.review_types import AuditReport
from dataproxy.store.schema import event, log_leaf, trajectory
from dataproxy.store.scope import EVERYBODY
from tests.console.conftest import Stage

pytestmark = pytest.mark.slow


def test_the_proof_names_every_row_and_tells_one_that_was_changed_from_one_that_is_missing(stage: Stage) -> None:
    browser = stage.browser()
    browser.get(f"/trajectories/{stage.names['orders']}/proof")
    num = leaves_of(stage, stage.names["orders"])
    assert f"{num} of {num} rows are what was stored" in browser.text
    name, database = stage.names["failed"], stage.proxy.services.database
    mine = event.c.trajectory_id == name
    with database.write() as connection:
        for (trigger,) in connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type='trigger' AND tbl_name='event'"
        ).all():
            connection.exec_driver_sql(f'DROP TRIGGER "{trigger}"')
        row = connection.execute(select(event).where(mine)).one()._asdict()
        about = connection.execute(select(trajectory).where(trajectory.c.trajectory_id == name)).one()._asdict()
        connection.execute(event.update().where(mine).values(status=200))
    browser.get(f"/trajectories/{name}/proof")
    assert "1 of its rows is changed: it is not what the log says." in browser.text
    assert f"changed{audited(stage, row['event_id'])}" in browser.text and "missing" not in browser.text
    with database.write() as connection:
        connection.execute(event.delete().where(mine))
    browser.get(f"/trajectories/{name}/proof")
    assert "1 of its rows is missing: the log says that it was stored, and it is not there." in browser.text
    assert f"missing{audited(stage, row['event_id'])}" in browser.text and "changed" not in browser.text
    with database.write() as connection:
        connection.execute(trajectory.delete().where(trajectory.c.trajectory_id == name))
    for reader in (browser, stage.browser("admin", "")):
        assert reader.get(f"/trajectories/{name}").status_code == 404
        assert "1 of its rows is missing" in reader.get(f"/trajectories/{name}/proof").text
    assert stage.browser("reviewer", "other").get(f"/trajectories/{name}/proof").status_code == 404
    with database.write() as connection:
        connection.execute(trajectory.insert().values(about))
        connection.execute(event.insert().values(row))


def audited(stage: Stage, key: str) -> str:
    """What the audit says is wrong with the row of that key."""
    steps = audit_steps(stage.proxy.services, "acme", EVERYBODY)
    report = next(step for step in steps if isinstance(step, AuditReport))
    return next(problem.what for problem in report.problems if problem.key == key)


def test_the_key_is_shown_as_its_file_and_as_notes_have_it(stage: Stage) -> None:
    verifier = stage.proxy.services.checkpoints.signer.verifier
    for page in ("/verify", f"/trajectories/{stage.names['orders']}/proof"):
        shown = html.unescape(stage.browser().get(page).text)
        assert (stage.proxy.files.directory / "ledger.pub").read_text().strip() in shown and verifier.key_line() in shown


def leaves_of(stage: Stage, name: str) -> int:
    return int(stage.proxy.rows(select(func.count()).select_from(log_leaf).where(log_leaf.c.chain == name))[0][0])
