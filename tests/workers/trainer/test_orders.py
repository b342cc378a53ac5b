"""What people order in the console is carried out: real clicks, a real record, two workers that hold real tensors."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from safetensors.torch import load_file
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from sqlalchemy import func, select

from atdp.versions import PolicyVersion
from dataproxy.api.audit_routes import audit_steps
from dataproxy.client import BadRequest, Denied, SyncDataProxyClient
from dataproxy.client.order_types import OrderAsk
from dataproxy.client.review_types import AuditReport
from dataproxy.store.schema import log_leaf, policy_version_state
from dataproxy.store.scope import EVERYBODY
from tests.console.chrome import chromium, find_chromium, relayed, sign_in, wait
from tests.fakes.engine import FakeEngine
from tests.workers.trainer.world import World, run_world, served_engines
from workers.trainer.engines import EngineFleet, Transport
from workers.trainer.fleet import FixedFleet
from workers.trainer.orders import carry_out
from workers.trainer.publish import Publisher
from workers.trainer.version_directory import TrainerState, VersionManifest, write_version

pytestmark = pytest.mark.slow


@dataclass
class Two:
    """Two workers that serve v000001, which was made of v000000; v000002 is made and serves nowhere."""

    world: World
    client: SyncDataProxyClient
    fleet: FixedFleet
    engines: dict[str, FakeEngine]
    publisher: Publisher

    def held(self) -> list[str]:
        """What each worker holds."""
        return [engine.model.weights.version for engine in self.engines.values()]

    def order(self, version: str, action: str = "serve", share: float = 1.0) -> str:
        """Give one through the API; its id."""
        return self.client.order_version(OrderAsk(version, action, "as agreed", share)).order_id  # type: ignore[arg-type]

    def leaves(self, kind: str) -> int:
        """How many the operator's log has."""
        where = (log_leaf.c.kind == kind, log_leaf.c.tenant == "")
        return int(self.world.proxy.rows(select(func.count()).select_from(log_leaf).where(*where))[0][0])


@pytest.fixture
def two(tmp_path, micro) -> Iterator[Two]:  # type: ignore[no-untyped-def]
    """The trainer has published once."""
    with run_world(tmp_path, micro) as world, served_engines(micro, 2) as engines, world.client() as client:
        fleet = FixedFleet(list(engines))
        publisher = Publisher(world.paths, client, EngineFleet(fleet, Transport("disk"), patience_s=0.0))
        publisher.publish_base(world.model)
        base = load_file(world.model / "model.safetensors")
        for number in (1, 2):
            weights = {name: tensor + 0.01 * number for name, tensor in base.items()}
            manifest = VersionManifest(f"v00000{number}", f"v00000{number - 1}", 1, {}, "float32", TrainerState())
            written = write_version(world.paths.versions, manifest, weights, world.paths.versions / "v000000")
            if number == 1:
                publisher.publish(written)
            else:
                client.register_version(PolicyVersion("v000002", "v000001", "published", 1, str(written)))
        yield Two(world, client, fleet, engines, publisher)


@pytest.fixture
def page(two: Two) -> Iterator[tuple[WebDriver, str]]:
    """An operator's browser at the version tree."""
    if find_chromium() is None:
        pytest.skip("NOT TESTED: there is no Chromium on this machine; on Debian: apt-get install -y chromium chromium-driver")
    with relayed(two.world.paths.socket) as address, chromium() as driver:
        sign_in(driver, address, two.world.proxy.key("admin", "", ""))
        driver.get(f"{address}/learning")
        yield driver, address


def newest(driver: WebDriver, part: str = "") -> str:
    """What the page says of the newest order; "" while there is none, or the page is being asked anew."""
    return str(driver.execute_script(f"return document.querySelector('#orders > div {part}')?.innerText ?? ''"))


def order_by_clicks(driver: WebDriver, deed: str, percent: str = "", version: str = "v") -> str:
    """From the tree, at a version whose name begins so, through the page that says what follows; gives what that said."""
    driver.find_element(By.XPATH, f"//tr[td[1]//a[starts-with(text(), '{version}')]]//a[text()='{deed}…']").click()
    wait(driver).until(lambda d: d.find_elements(By.NAME, "reason"))
    said = driver.find_element(By.TAG_NAME, "main").text
    if percent:
        field = driver.find_element(By.NAME, "percent")
        field.clear()
        field.send_keys(percent)
    driver.find_element(By.NAME, "reason").send_keys("the newest answers worse")
    driver.find_element(By.XPATH, f"//button[text()='{deed}']").click()
    wait(driver).until(lambda d: "waits for the keeper" in newest(d))
    return said


def ends(driver: WebDriver, address: str, word: str) -> None:
    """The page says so by itself, and the tree is at hand again."""
    wait(driver).until(lambda d: newest(d, "b") == word)
    driver.get(f"{address}/learning")


def test_a_rollback_a_canary_and_its_promotion_by_clicks(two: Two, page: tuple[WebDriver, str]) -> None:
    driver, address = page
    states = two.leaves("policy_version_state")
    said = order_by_clicks(driver, "Roll back to it")
    assert "v000000 answers every call from then on. v000001 is retired" in said and "the one tenant;" in said
    assert two.held() == ["v000001"] * 2 and two.leaves("version_order") == 1, "an order alone changes no worker"
    carry_out(two.client, two.publisher)
    ends(driver, address, "done")
    assert two.held() == ["v000000"] * 2 and two.client.serving_version().version == "v000000"
    assert two.leaves("version_order") == 3 and two.leaves("policy_version_state") == states + 2

    driver.find_element(By.LINK_TEXT, "v000002").click()
    wait(driver).until(lambda d: d.find_elements(By.LINK_TEXT, "Try it on a share…"))
    driver.find_element(By.LINK_TEXT, "Learning").click()
    wait(driver).until(lambda d: d.find_elements(By.XPATH, "//table//a[text()='Try it on a share…']"))
    said = order_by_clicks(driver, "Try it on a share", "25")
    assert "always the same ones; v000000 answers the others" in said
    carry_out(two.client, two.publisher)
    ends(driver, address, "done")
    tried = next(one.version for one in two.client.list_versions() if one.state == "canary")
    assert sorted(two.held()) == ["v000000", tried] and two.fleet.view().canary_per_mille == 250

    assert "answers every call from then on" in order_by_clicks(driver, "Promote")
    carry_out(two.client, two.publisher)
    ends(driver, address, "done")
    assert two.held() == [tried] * 2 and two.client.serving_version().version == tried and not two.fleet.view().of_lane("canary")
    changed_by = two.world.proxy.rows(select(policy_version_state.c.key_id).order_by(policy_version_state.c.position.desc()))[0][0]
    assert changed_by != two.client.list_version_orders(1)[0].key_id, "who ordered stands with the order, who did it with the state"
    services = two.world.proxy.services
    assert next(step for step in audit_steps(services, None, EVERYBODY) if isinstance(step, AuditReport)).ok


def test_an_order_is_taken_back_by_a_click_and_nothing_happens(two: Two, page: tuple[WebDriver, str]) -> None:
    driver, _ = page
    order_by_clicks(driver, "Let it serve")
    driver.find_element(By.XPATH, "//button[text()='Take it back']").click()
    wait(driver).until(lambda d: newest(d, "b") == "withdrawn")
    carry_out(two.client, two.publisher)
    assert two.held() == ["v000001"] * 2 and two.leaves("version_order") == 2


def test_what_cannot_be_done_is_said_and_what_served_goes_on(two: Two) -> None:
    two.order("v000002")
    (two.world.paths.versions / "v000002" / "model.safetensors").write_bytes(b"not weights")
    carry_out(two.client, two.publisher)
    order = two.client.list_version_orders(1)[0]
    assert order.state == "refused" and order.said.endswith("what served goes on serving")
    assert two.held() == ["v000001"] * 2 and two.client.serving_version().version == "v000001"


def test_an_order_that_a_dead_keeper_had_begun_is_carried_out_by_the_next(two: Two) -> None:
    order_id = two.order("v000000")
    two.client.move_version_order(order_id, "begin")
    with pytest.raises(BadRequest, match="is begun"):
        two.client.move_version_order(order_id, "withdraw")
    carry_out(two.client, two.publisher)
    assert two.held() == ["v000000"] * 2 and two.client.list_version_orders(1)[0].state == "done"
    carry_out(two.client, two.publisher)
    assert len(two.client.list_version_orders()) == 1


def test_one_order_at_a_time_and_only_what_would_change_something(two: Two) -> None:
    for version, action, share in (("v000001", "serve", 1.0), ("v000001", "canary", 0.1), ("v000002", "canary", 0.0)):
        with pytest.raises(BadRequest):
            two.order(version, action, share)
    two.order("v000000")
    with pytest.raises(BadRequest, match="open still"):
        two.order("v000002")
    assert two.leaves("version_order") == 1


@pytest.mark.parametrize(("role", "tenant"), [("reviewer", ""), ("agent", ""), ("admin", "acme"), ("trainer", "acme")])
def test_who_may_not_publish_may_not_order(two: Two, role: str, tenant: str) -> None:
    key = two.world.proxy.key(role, tenant)
    with SyncDataProxyClient(two.world.paths.socket, key) as other:
        with pytest.raises(Denied):
            other.order_version(OrderAsk("v000000", "serve", "I want it"))
        order_id = two.order("v000000")
        with pytest.raises(Denied):
            other.move_version_order(order_id, "withdraw")
        if role == "reviewer":
            assert other.list_version_orders(1)[0].order_id == order_id
        else:
            with pytest.raises(Denied):
                other.list_version_orders(1)
    assert two.client.list_version_orders(1)[0].state == "waiting"
