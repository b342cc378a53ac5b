"""The file of MCP servers, ``mcp.toml`` in the configuration directory: what agents call them, where they are, what they are sent.

Example:
    [servers.orders]
    url = "http://127.0.0.1:9000/mcp"
    tenants = ["acme"]                       # without it: every tenant
    [servers.orders.headers_env]
    authorization = "ORDERS_AUTHORIZATION"   # the value of this environment variable
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from gateway.errors import GatewayError

FILE_NAME: Final = "mcp.toml"


class InvalidServers(GatewayError, ValueError):
    """The file of MCP servers cannot be used."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    tenants: list[str] = []
    headers_env: dict[str, str] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    servers: dict[str, _Entry] = {}


@dataclass(slots=True, frozen=True)
class McpServer:
    """One server. ``headers`` are its own credentials, never shown; no ``tenants``: all."""

    name: str
    url: str
    tenants: frozenset[str]
    headers: Mapping[str, str] = field(repr=False)

    def serves(self, tenant: str) -> bool:
        """Whether agents of ``tenant`` may call it."""
        return not self.tenants or tenant in self.tenants


def read_servers(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, McpServer]:
    """The servers in the file at ``path``, by name; none where there is no file.

    Raises:
        InvalidServers: with what is wrong.
    """
    try:
        entries = msgspec.convert(tomllib.loads(path.read_text()), _File).servers
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidServers(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidServers(f"{path}: {error}") from error
    return {name: _server(name, entry, path, environment) for name, entry in entries.items()}


def _server(name: str, entry: _Entry, path: Path, environment: Mapping[str, str]) -> McpServer:
    parts = urlsplit(entry.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidServers(f"{path}: the url of {name} must be http:// or https:// with a host")
    headers = {}
    for header, variable in entry.headers_env.items():
        if not environment.get(variable):
            raise InvalidServers(f"{path}: {name} takes its header {header} from {variable}, which is not set")
        headers[header.lower()] = environment[variable]
    return McpServer(name, entry.url, frozenset(entry.tenants), headers)
