"""The log: one JSON object a line on standard error. No message holds prompts, answers, token ids or keys."""

import json
import logging
import time

_CUT = "ASGI callable returned without completing response."


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "message"}``, and the traceback's last line's type where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def not_a_cut(record: logging.LogRecord) -> bool:
    """Drop the server's complaint about streams that the relay cuts on purpose; the relay logs those itself."""
    return record.getMessage() != _CUT


def configure(level: str) -> None:
    """Set up the root logger and tame the server's. Called once, in ``__main__``."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("uvicorn.error").addFilter(not_a_cut)
