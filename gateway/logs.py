"""The log: one JSON object a line on standard error. No message holds prompts, answers, token ids, headers or keys."""

import json
import logging
import time
import traceback

_CUT = "ASGI callable returned without completing response."


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "message"}``, with the frames and the type of an exception but not its text, which may quote
    what was being handled. ``process`` numbers the process where there are several.
    """

    def __init__(self, process: str = "") -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._process:
            fields["process"] = self._process
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"], fields["frames"] = describe(record.exc_info[1])
        return json.dumps(fields)


def describe(error: BaseException) -> tuple[str, list[str]]:
    """The types along the chain of ``error``, the outermost first, and where it passed, as ``file:line function``."""
    kinds: list[str] = []
    frames: list[str] = []
    link: BaseException | None = error
    while link is not None and len(kinds) < 10:
        kinds.append(type(link).__name__)
        frames += [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(link.__traceback__)]
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return " from ".join(kinds), frames


def not_a_cut(record: logging.LogRecord) -> bool:
    """Drop the server's complaint about streams that the relay cuts on purpose; the relay logs those itself."""
    return record.getMessage() != _CUT


def configure(level: str, process: str = "") -> None:
    """Set up the root logger and tame the server's. Called once in a process, in ``__main__``."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(process))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(not_a_cut)
