"""POST /v1/completions of the fake engine. A prompt is text or token ids; the finish reason comes with a choice's last text."""

from typing import Any

from tests.fakes.dialects.call import Refused, Running, end_stream, send_data, send_event, send_json, start_stream
from tests.fakes.dialects.chat import Chat, usage
from tests.fakes.generation import VOCABULARY_OFFSET


class Completions:
    """OpenAI's legacy completions."""

    prefix = "cmpl-"
    error = Chat.error

    def as_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body.get("prompt")
        if not prompt:
            raise Refused("Prompt cannot be empty")
        if isinstance(prompt, list):
            prompt = bytes(token - VOCABULARY_OFFSET for token in prompt).decode(errors="replace")
        return {"max_tokens": 16, **body, "messages": [{"role": "prompt", "content": prompt}]}

    async def stream(self, call: Running, send: Any) -> None:
        head = {"id": call.rid, "object": "text_completion", "created": 1}
        await start_stream(send)

        async def event(index: int, text: str, reason: str | None) -> None:
            ending = {"finish_reason": reason, "matched_stop": None}
            chunk = {**head, "choices": [{"index": index, "text": text, "logprobs": None, **ending}]}
            await send_event(send, {**chunk, "model": call.body["model"], "usage": None})

        for index in range(call.chat.get("n") or 1):
            waiting = ""  # one behind, so that the last text leaves with the finish reason
            async for parts in call.answer(index):
                if waiting:
                    await event(index, waiting, None)
                waiting = "".join(part.text for part in parts)
            await event(index, waiting, call.samples[-1].finish_reason)
        if (call.body.get("stream_options") or {}).get("include_usage"):
            await send_event(send, {**head, "choices": [], "model": call.body["model"], "usage": usage(call)})
        await send_data(send, b"[DONE]")
        await end_stream(send)

    async def whole(self, call: Running, send: Any) -> None:
        choices = []
        for index in range(call.chat.get("n") or 1):
            text = "".join(part.text for part in await call.whole(index))
            ending = {"finish_reason": call.samples[-1].finish_reason, "matched_stop": call.samples[-1].matched}
            choices.append({"index": index, "text": text, "logprobs": None, **ending})
        answer = {"id": call.rid, "object": "text_completion", "created": 1, "model": call.body["model"], "choices": choices}
        await send_json(send, 200, {**answer, "usage": usage(call), "metadata": {"weight_version": call.model.version}})
