"""POST /v1/responses of the fake engine, with stored responses: GET and cancel by id, and `previous_response_id`."""

from dataclasses import dataclass, field
from typing import Any

from tests.fakes.dialects.call import Refused, Running, end_stream, send_event, send_json, start_stream
from tests.fakes.dialects.parts import Part, flat

_ITEMS = {None, "message", "function_call", "function_call_output", "reasoning"}
_STATUS = {"length": "incomplete", "abort": "failed"}


@dataclass
class Responses:
    """OpenAI's responses. ``stored`` holds finished ones, ``history`` the messages that each goes on from."""

    prefix = "resp_"
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        given = body.get("input")
        if not isinstance(given, str | list):
            raise Refused("input: Field required")
        for unknown in ("background", "conversation"):
            if body.get(unknown):
                raise Refused(f"{unknown} is not supported")
        before = body.get("previous_response_id")
        if before is not None and before not in self.stored:
            raise Refused(f"Response with id '{before}' not found.", 404)
        new = [message(item) for item in given] if isinstance(given, list) else [{"role": "user", "content": given}]
        system = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        messages = [*system, *self.history.get(before or "", []), *new]
        return {**body, "max_tokens": body.get("max_output_tokens"), "messages": messages}

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": status}}

    def retrieve(self, response_id: str) -> tuple[int, dict[str, Any]]:
        """Status and body of GET /v1/responses/{id}, and of its cancellation: what is stored has ended."""
        if response_id not in self.stored:
            return 404, self.error(404, f"Response with id '{response_id}' not found.")
        return 200, self.stored[response_id]

    async def stream(self, call: Running, send: Any) -> None:
        await start_stream(send)
        number = 0

        async def event(kind: str, **fields: Any) -> None:
            nonlocal number
            await send_event(send, {"type": kind, "sequence_number": number, **fields}, kind)
            number += 1

        for kind in ("response.created", "response.in_progress"):
            await event(kind, response=head(call, "in_progress", []))
        items: list[dict[str, Any]] = []
        async for parts in call.answer():
            for part in parts:
                if not items or items[-1]["type"] != kind_of(part) or part.kind == "tool":
                    await close(event, items)
                    items.append(item(part, call.rid, len(items)))
                    await open_item(event, items)
                await extend(event, items, part)
        await close(event, items)
        final = self._finish(call, items)
        await event(f"response.{final['status']}", response=final)
        await end_stream(send)

    async def whole(self, call: Running, send: Any) -> None:
        items: list[dict[str, Any]] = []
        for part in await call.whole():
            if not items or items[-1]["type"] != kind_of(part) or part.kind == "tool":
                items.append(item(part, call.rid, len(items)))
            add(items[-1], part)
        for one in items:
            one["status"] = "completed"
        await send_json(send, 200, self._finish(call, items))

    def _finish(self, call: Running, items: list[dict[str, Any]]) -> dict[str, Any]:
        final = head(call, _STATUS.get(call.samples[-1].finish_reason or "", "completed"), items)
        counts = {"input_tokens": call.num_prompt, "output_tokens": call.num_output}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        final["usage"] = {**counts, **details, "total_tokens": call.num_prompt + call.num_output}
        if final["status"] == "incomplete":
            final["incomplete_details"] = {"reason": "max_output_tokens"}
        if call.body.get("store", True):
            before = [one for one in call.chat["messages"] if one["role"] != "system"]
            self.stored[call.rid], self.history[call.rid] = final, [*before, *map(message, items)]
        return final


def message(item: dict[str, Any]) -> dict[str, Any]:
    """An input item as a chat message."""
    kind = item.get("type")
    if kind not in _ITEMS:
        raise Refused(f"Unsupported Responses API input item type: {kind!r}")
    if kind == "function_call":
        return {"role": "assistant", "content": f"{item['name']}({item['arguments']})"}
    if kind == "function_call_output":
        return {"role": "tool", "content": flat(item["output"])}
    return {"role": item.get("role", "assistant"), "content": flat(item.get("content") or item.get("summary"))}


def head(call: Running, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    """A response object; its usage and details come with the end."""
    told = {key: call.body.get(key) for key in ("instructions", "max_output_tokens", "previous_response_id", "temperature")}
    known = {"id": call.rid, "object": "response", "created_at": 1, "model": call.body["model"], "output": output, "status": status}
    choice = {"tool_choice": "auto", "tools": call.body.get("tools") or [], "parallel_tool_calls": True, "metadata": {}}
    unset = {"usage": None, "error": None, "incomplete_details": None}
    return {**known, **unset, **told, **choice, "store": call.body.get("store", True)}


def kind_of(part: Part) -> str:
    return {"text": "message", "reasoning": "reasoning", "tool": "function_call"}[part.kind]


def item(part: Part, rid: str, index: int) -> dict[str, Any]:
    """An output item as it opens."""
    ident, kind = f"{index}_{rid[-12:]}", kind_of(part)
    if kind == "function_call":
        call = {"arguments": "", "call_id": f"call_{ident}", "name": part.name}
        return {**call, "type": kind, "id": f"fc_{ident}", "status": "in_progress"}
    if kind == "reasoning":
        return {"id": f"rs_{ident}", "type": kind, "summary": [], "content": [], "status": "in_progress"}
    return {"id": f"msg_{ident}", "type": kind, "role": "assistant", "content": [], "status": "in_progress"}


def add(one: dict[str, Any], part: Part) -> None:
    """Put a part's text into its item."""
    if part.kind == "tool":
        one["arguments"] += part.text
        return
    kind = {"type": "output_text", "annotations": []} if part.kind == "text" else {"type": "reasoning_text"}
    one["content"] = one["content"] or [{**kind, "text": ""}]
    one["content"][0]["text"] += part.text


async def open_item(event: Any, items: list[dict[str, Any]]) -> None:
    at, one = len(items) - 1, items[-1]
    await event("response.output_item.added", output_index=at, item=dict(one))
    if one["type"] != "function_call":
        kind = "output_text" if one["type"] == "message" else "reasoning_text"
        part = {"type": kind, "text": "", **({"annotations": []} if one["type"] == "message" else {})}
        await event("response.content_part.added", output_index=at, item_id=one["id"], content_index=0, part=part)


_DELTAS = {
    "message": "response.output_text",
    "reasoning": "response.reasoning_text",
    "function_call": "response.function_call_arguments",
}


async def extend(event: Any, items: list[dict[str, Any]], part: Part) -> None:
    one = items[-1]
    add(one, part)
    where = {"output_index": len(items) - 1, "item_id": one["id"]} | ({} if part.kind == "tool" else {"content_index": 0})
    await event(f"{_DELTAS[one['type']]}.delta", **where, delta=part.text, **({"logprobs": []} if part.kind == "text" else {}))


async def close(event: Any, items: list[dict[str, Any]]) -> None:
    """End the item that is open, if one is."""
    if not items or items[-1]["status"] != "in_progress":
        return
    one, where = items[-1], {"output_index": len(items) - 1, "item_id": items[-1]["id"]}
    one["status"] = "completed"
    if one["type"] == "function_call":
        await event(f"{_DELTAS[one['type']]}.done", **where, arguments=one["arguments"], name=one["name"])
    else:
        where["content_index"] = 0
        more = {"logprobs": []} if one["type"] == "message" else {}
        await event(f"{_DELTAS[one['type']]}.done", **where, text=one["content"][0]["text"], **more)
        await event("response.content_part.done", **where, part=one["content"][0])
    await event("response.output_item.done", output_index=len(items) - 1, item=one)
