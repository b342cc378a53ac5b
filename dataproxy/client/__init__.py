"""The data proxy's client: everything that another process may ask of it, typed, over its Unix socket.

``DataProxyClient`` is async (gateway), ``SyncDataProxyClient`` is not (trainer, CLI). Both send the calls of ``calls.py``.
"""

from dataproxy.client.async_client import DataProxyClient
from dataproxy.client.errors import (
    BadRequest,
    DataProxyClientError,
    Denied,
    NotFound,
    ServerFailed,
    Unavailable,
)
from dataproxy.client.exporting import ExportQuery
from dataproxy.client.review import ReviewClient
from dataproxy.client.rewarding import RewardClient
from dataproxy.client.sync_client import SyncDataProxyClient

__all__ = [
    "BadRequest",
    "DataProxyClient",
    "DataProxyClientError",
    "Denied",
    "ExportQuery",
    "NotFound",
    "ReviewClient",
    "RewardClient",
    "ServerFailed",
    "SyncDataProxyClient",
    "Unavailable",
]
