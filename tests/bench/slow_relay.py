"""A relay of bytes that burns CPU: ``slow_relay.py PORT ENGINE_PORT SPINS``, or ``slow_relay.py PORT 404`` which refuses all."""

import asyncio
import sys

_REFUSAL = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, spins: int) -> None:
    while data := await reader.read(65536):
        for _ in range(spins):
            pass
        writer.write(data)
    writer.close()


async def relay(port: int, engine_port: int, spins: int) -> None:
    """Listen for ever."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_connection("127.0.0.1", engine_port)
        await asyncio.gather(_copy(reader, engine_writer, spins), _copy(engine_reader, writer, spins))

    await (await asyncio.start_server(connected, "127.0.0.1", port)).serve_forever()


async def refuse(port: int) -> None:
    """Listen for ever; everybody gets 404."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(_REFUSAL)

    await (await asyncio.start_server(connected, "127.0.0.1", port)).serve_forever()


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    asyncio.run(refuse(numbers[0]) if len(numbers) == 2 else relay(*numbers))
