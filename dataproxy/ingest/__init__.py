"""Events that did not come over the model gateway: posted by agents, mapped from OpenTelemetry, seen at an MCP server.

Owns judging, redacting and placing them. They carry no tokens, so none of them ever trains. Not owned: the wire form
(``atdp.ingest``), the HTTP routes (``dataproxy.api``). Place in the path: beside the drain, through the same door into the store.
"""
