"""The route of the pass-through. The relay and its HTTP client are loaded where the file names a server, and nowhere else."""

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response

from gateway.errors import Refused
from gateway.headers import credential
from gateway.mcp.servers import FILE_NAME, read_servers
from gateway.state import Gateway

if TYPE_CHECKING:
    from gateway.mcp.relay import McpRelay


def make_relay(gateway: Gateway) -> "McpRelay | None":
    """The relay to the servers that the file names; None without any.

    Raises:
        InvalidServers: the file cannot be used.
    """
    servers = read_servers(gateway.settings.config_dir.expanduser() / FILE_NAME)
    if not servers:
        return None
    from gateway.mcp.relay import McpRelay

    return McpRelay(gateway, servers)


def add_mcp(api: FastAPI, gateway: Gateway, relay: "McpRelay | None") -> None:
    """Add the route of ``gateway`` to ``api``."""

    @api.post("/mcp/{name}")
    @api.get("/mcp/{name}")
    @api.delete("/mcp/{name}")
    async def mcp(request: Request, name: str) -> Response:
        identity = await gateway.keys.caller(credential(request.scope["headers"]))
        server = relay.server(name, identity.tenant) if relay is not None else None
        if relay is None or server is None:
            raise Refused(
                404, "unknown_mcp_server", f"no MCP server of this name; {FILE_NAME} of the gateway's configuration names them"
            )
        return await relay.relay(request, identity, server)
