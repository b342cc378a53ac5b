"""``GET /openapi.json``: every route of the gateway, hot ones included. Owns the description; the routes are elsewhere.

Bodies of the engine's are described as far as the gateway reads them; the engine's own documentation has the rest.
"""

from gateway.openapi.document import document

__all__ = ["document"]
