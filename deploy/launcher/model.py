"""Gets the model directory ready in a process of its own, because making a model imports torch and the command line must not.

Run as ``python -m deploy.launcher.model NAME DTYPE CACHE_DIR``: makes the model if it is missing and prints its directory.
"""

import asyncio
import sys
from pathlib import Path

from deploy.errors import StartFailed
from deploy.launcher.options import SMOLLM2, TINY, UpOptions
from deploy.paths import cache_dir

_NUM_TAIL_LINES = 5


async def ensure_model(options: UpOptions) -> Path:
    """The directory of the model, made at the first call (SmolLM2: about 10 s).

    Raises:
        StartFailed: it cannot be made, or the named directory is no model.
    """
    if options.model not in (SMOLLM2, TINY):
        directory = Path(options.model).expanduser().resolve()
        if not (directory / "config.json").is_file():
            raise StartFailed(f"{directory} holds no model (no config.json). --model takes smollm2, tiny, or a model's directory.")
        return directory
    note = cache_dir() / "models" / f"{options.model}-{options.dtype}.path"
    if note.exists() and (known := Path(note.read_text())).is_dir():
        return known  # importing torch to learn that there is nothing to do takes longer than anything else here
    arguments = [sys.executable, "-m", __name__, options.model, options.dtype, str(note.parent)]
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        tail = "\n".join(f"    {line}" for line in err.decode(errors="replace").splitlines()[-_NUM_TAIL_LINES:])
        raise StartFailed(f"The model {options.model} could not be made:\n{tail}")
    directory = Path(out.decode().splitlines()[-1])
    note.write_text(str(directory))
    return directory


def _main(name: str, dtype: str, directory: Path) -> None:
    from workers.inference.model import ensure_smollm2, make_tiny

    if name == SMOLLM2:
        print(ensure_smollm2(directory, "bfloat16" if dtype == "bfloat16" else "float32"))
    else:
        print(make_tiny(directory / f"tiny-{dtype}", seed=0, dtype="bfloat16" if dtype == "bfloat16" else "float32"))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
