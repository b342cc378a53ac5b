"""Stands in for the data proxy: serves a key table on a Unix socket. The first key records, the others do not.

``python -m bench.gateway.keytable SOCKET KEY…``.
"""

import asyncio
import hashlib
import json
import sys


def table(keys: list[str]) -> bytes:
    """``GET /v1/keys/table`` for ``keys``."""
    fields = {"tenant": "bench", "agent": "bench", "role": "agent", "models": [], "revoked": False, "expires_us": None}
    rows = [
        {**fields, "key_id": f"k{i}", "key_hash": hashlib.sha256(key.encode()).hexdigest(), "record": i == 0}
        for i, key in enumerate(keys)
    ]
    return json.dumps(rows).encode()


async def serve(socket: str, keys: list[str]) -> None:
    """Listen for ever; every request gets the table."""
    body = table(keys)
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                writer.write(answer)
        except asyncio.IncompleteReadError:
            writer.close()

    await (await asyncio.start_unix_server(connected, socket)).serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
