"""``python -m gateway.external``: read the settings and the file of models, serve until SIGTERM."""

import logging
import sys

import uvicorn
from pydantic import ValidationError

from gateway.external.app import Api
from gateway.external.catalog import read_catalog
from gateway.external.errors import InvalidCatalog
from gateway.external.settings import Settings
from gateway.logs import configure

log = logging.getLogger("gateway.external")
_KEEP_ALIVE_S = 75
_DRAIN_S = 30


def main() -> int:
    """The exit status: 0 after a clean stop, 1 if it could not start."""
    try:
        settings = Settings()
        catalog = read_catalog(settings.catalog_path())
    except (ValidationError, InvalidCatalog) as error:
        print(f"gateway.external: {error}", file=sys.stderr)
        return 1
    configure(settings.log_level)
    logging.getLogger("LiteLLM").setLevel(logging.WARNING)
    log.info("settings %s; models %s", settings.model_dump_json(), ", ".join(catalog))
    config = uvicorn.Config(
        Api(catalog, settings.timeout_s, settings.max_calls).app(),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server = uvicorn.Server(config)
    server.run()
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
