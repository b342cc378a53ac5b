"""Questions to one engine around a swap: does it hold what it says, did a dead publisher leave it half updated?

Owns no order among engines (`engines`) and no rule of what follows (`keeper`). Place in the path: step 3.
"""

from __future__ import annotations

import logging
from pathlib import Path

from atdp.versions import PolicyVersion
from workers.inference.client import EngineClient, InferenceError, expected_checksum
from workers.trainer.errors import SwapFailed

logger = logging.getLogger(__name__)


async def proves(url: str, version: PolicyVersion) -> bool:
    """Whether an engine says that it holds `version`, and its weights are those on record."""
    try:
        async with EngineClient(url) as client:
            return (await client.state()).weight_version == version.version and await client.checksum() == version.checksum
    except InferenceError:
        return False


async def settle(client: EngineClient) -> str:
    """Undo an update that a dead publisher left open; gives the dtype that the engine serves in. Raises InferenceError.

    Whoever calls holds the publish lock, so an open update is nobody's. The engine's watchdog would do the same, later.
    """
    state = await client.state()
    if state.update != "none":
        logger.warning("an update was left open by a publisher that died; back to %s", await client.restore())
    if state.paused:
        await client.resume()
    return state.dtype


async def settles(url: str) -> bool:
    """Whether an engine answers, and is in no update of a publisher that died; see `settle`."""
    try:
        async with EngineClient(url) as client:
            await settle(client)
    except InferenceError as error:
        logger.info("%s does not answer: %s", url, error)
        return False
    return True


async def compare(url: str, directory: Path) -> str:
    """The engine's checksum, which is that of `directory`. Raises: SwapFailed where it is not; InferenceError."""
    async with EngineClient(url) as client:
        found, wanted = await client.checksum(), expected_checksum(directory, (await client.state()).dtype)
    if found != wanted:
        raise SwapFailed(f"{url} holds {found}, {directory} is {wanted}: start it with the model that the trainer has")
    return found
