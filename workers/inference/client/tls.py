"""Whom to believe over TLS, read once a process: httpx reads all certificates for each client, 25 to 50 ms of CPU.

As the gateway's: the system's authorities, or those in the file that ``SSL_CERT_FILE`` names.
"""

import ssl
from functools import cache


@cache
def trust() -> ssl.SSLContext:
    """The context to hand to every short-lived client as ``verify``."""
    return ssl.create_default_context()
