"""A clear 400 for a body that SGLang's models do not take.

Owns the message: where it is and what is wrong, in one line. SGLang's own repeats the input, its file names and one complaint for
each form that the value could have had (29 for an unknown content part). Place in the path: step 1, before the engine is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from workers.inference.middleware import repairing

_MAX_PROBLEMS: Final = 3
_TAGS: Final = {"body", "str", "int", "float", "bool", "list", "dict"}


async def around_handler(original: Callable[[Any, Any], Awaitable[Any]], request: Any, error: Any) -> Any:
    """FastAPI's handler of a RequestValidationError."""
    if repairing() is None:
        return await original(request, error)
    return _answer(request.url.path, describe(error.errors()))


def refusal(path: str, error: BaseException) -> bytes:
    """The body of a 400 for a request on `path` of which SGLang's models stumbled over a value."""
    from workers.inference.dialects.refusals import as_refusal

    body: bytes = _answer(path, str(as_refusal(error))).body
    return body


def describe(problems: Sequence[dict[str, Any]]) -> str:
    """The problems that lie deepest: of a union, those of the member that fits best."""
    if problems and problems[0]["type"] == "json_invalid":
        return f"the body is not JSON, at character {problems[0]['loc'][-1]}: {problems[0]['ctx']['error']}"
    depth = max((_depth(problem) for problem in problems), default=0)
    deepest = [problem for problem in problems if _depth(problem) == depth]
    deepest = [problem for problem in deepest if problem["loc"][-1:] != ("role",)] or deepest  # forms of other roles
    unknown = [problem for problem in deepest if problem["loc"][-1:] == ("type",) and problem["type"] == "literal_error"]
    if unknown:
        return f"{_place(unknown[0])}: unsupported value {unknown[0].get('input')!r}"
    told = dict.fromkeys(f"{_place(problem)}: {problem['msg']}".removeprefix(": ") for problem in deepest)
    return "; ".join(list(told)[:_MAX_PROBLEMS]) or "invalid request"


def _answer(path: str, message: str) -> Any:
    from fastapi.responses import JSONResponse

    if path.startswith("/v1/messages"):
        return JSONResponse({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, 400)
    problem = {"message": message, "type": "invalid_request_error", "param": None, "code": 400}
    if path.startswith("/v1/responses"):
        return JSONResponse({"error": problem}, 400)
    return JSONResponse({"object": "error", **problem}, 400)


def _depth(problem: dict[str, Any]) -> int:
    return sum(isinstance(step, int) for step in problem["loc"])


def _place(problem: dict[str, Any]) -> str:
    """The path of a value, without the names of the forms that were tried."""
    steps = [str(step) for step in problem["loc"]]
    return ".".join(step for step in steps if step not in _TAGS and "[" not in step and not step[:1].isupper())
