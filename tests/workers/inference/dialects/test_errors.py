"""What a caller is told of a body that does not fit: one line, the place, and no more of the input than the odd value."""

from typing import Annotated, Any, Literal

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from workers.inference.dialects.errors import describe

TEXT = {"type": "text", "text": "a"}


class TextPart(BaseModel):
    type: Literal["text"]
    text: str


class ImagePart(BaseModel):
    type: Literal["image_url"]
    image_url: dict[str, str]


class System(BaseModel):
    role: Literal["system", "tool"]
    content: str | list[TextPart] | None = None


class User(BaseModel):
    role: Literal["user"]
    content: str | list[TextPart | ImagePart]


class Body(BaseModel):
    """A body whose unions are those of SGLang's chat request."""

    model: str
    messages: list[System | User]
    n: Annotated[int, Field(ge=1)] = 1


def problems(body: Any) -> list[dict[str, Any]]:
    with pytest.raises(ValidationError) as failure:
        TypeAdapter(Body).validate_python(body)
    return [{**problem, "loc": ("body", *problem["loc"])} for problem in failure.value.errors()]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"messages": [{"role": "user", "content": [TEXT, {"type": "odd"}]}]}, "messages.0.content.1.type: unsupported value"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content: Input should be a valid string"),
        ({"messages": [{"role": "boss", "content": "x"}]}, "messages.0.role: Input should be 'system'"),
        ({"messages": "hello"}, "messages: Input should be a valid list"),
        ({"n": 0}, "n: Input should be greater than or equal to 1"),
        ({"model": None}, "model: Input should be a valid string"),
    ],
)  # fmt: skip
def test_the_place_and_the_problem(change: dict[str, Any], told: str) -> None:
    good = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
    message = describe(problems({**good, **change}))
    assert message.startswith(told) and "\n" not in message and len(message) < 250


def test_what_is_not_json_is_told_with_its_place() -> None:
    broken = {
        "type": "json_invalid",
        "loc": ("body", 9),
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": "Expecting value"},
    }
    assert describe(RequestValidationError([broken]).errors()) == "the body is not JSON, at character 9: Expecting value"
