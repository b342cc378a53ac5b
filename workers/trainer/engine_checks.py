"""Questions to one engine around a swap: does it hold what it says, did a dead publisher leave it half updated?

Owns no order among engines (`engines`) and no rule of what follows (`keeper`). Place in the path: step 3.
"""

from __future__ import annotations

import logging
from pathlib import Path

from atdp.versions import PolicyVersion
from workers.inference.client import EngineClient, InferenceError, expected_checksum
from workers.trainer.errors import SwapFailed
from workers.trainer.expected import expected

logger = logging.getLogger(__name__)


async def proves(url: str, version: PolicyVersion) -> str | None:
    """The start of an engine (its instance) that says that it holds `version`, if its weights are those on record; else None."""
    try:
        async with EngineClient(url) as client:
            state = await client.state()  # before the checksum: another start that came in between is not the one that is proven
            if state.weight_version != version.version:
                return None
            found = await client.checksum()
            return state.instance if found == expected(version, found, state.dtype) else None
    except InferenceError:
        return None


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


async def compare(url: str, directory: Path) -> tuple[str, str]:
    """The start of an engine (its instance), and its checksum, which is that of `directory`.

    Raises: SwapFailed where it is not; InferenceError.
    """
    async with EngineClient(url) as client:
        state = await client.state()
        found, wanted = await client.checksum(), expected_checksum(directory, state.dtype)
    if found != wanted:
        raise SwapFailed(f"{url} holds {found}, {directory} is {wanted}: start it with the model that the trainer has")
    return state.instance, found
