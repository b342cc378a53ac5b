"""An erasure from the question to the purged file, as the API does it."""

from dataproxy.client.review_types import Erasure
from dataproxy.retain.erase import erase, plan_erasure
from dataproxy.retain.targets import resolve
from tests.dataproxy.proxy import Proxy


def erased(proxy: Proxy, scope: str, name: str, tenant: str = "acme") -> Erasure:
    services = proxy.services
    with services.database.read() as connection:
        plan = plan_erasure(connection, resolve(connection, tenant, scope, name, services.digests(tenant)))
    with services.database.write() as connection:
        done = erase(connection, plan, "asked for it", "key-9", proxy.clock())
    assert services.database.purge() or not services.database.may_purge
    return done
