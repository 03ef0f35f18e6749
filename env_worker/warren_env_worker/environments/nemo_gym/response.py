"""What the policy said and was answered, as the object of the Responses API that `verify` reads.

Invariant: the object is the same for the same words and answers: it has no times and no ids by chance.

The items are those that NeMo Gym's own agent would have collected: what was thought, what was said, calls and what
they gave. Words that were meant as a call and can't be read as one stand there as they were said, and what the policy was told
of them as a message of the user.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from warren_env_worker.environments.tool_calls import ReadCall
from warren_schemas.chat.answer_text import spoken

Item = dict[str, Any]
_CALL = re.compile(r"<tool_call>|^```", re.MULTILINE)


class ResponseItems:
    def __init__(self, params: Mapping[str, Any]) -> None:
        """`params` are what the row asks the model with."""
        self._params = params
        self._items: list[Item] = []

    def __len__(self) -> int:
        return len(self._items)

    def said(self, words: str, *, before_calls: bool = False) -> None:
        """A turn. `before_calls`: it has calls, of which `called` tells, and here is what goes before them."""
        self._thought(words)
        text = spoken(words)
        if before_calls:
            text = _CALL.split(text, maxsplit=1)[0]
        if (text := text.strip()) or not before_calls:
            self._message(text)

    def called(self, call: ReadCall, answer: str | None = None) -> None:
        """`answer` is what it gave; None where the server makes the call itself."""
        number = f"call_{len(self._items)}"
        self._items.append(
            {
                "type": "function_call",
                "id": f"fc_{len(self._items)}",
                "call_id": number,
                "name": call.name,
                "arguments": json.dumps(call.arguments),
                "status": "completed",
            }
        )
        if answer is not None:
            self._items.append(
                {"type": "function_call_output", "call_id": number, "output": answer}
            )

    def told(self, text: str) -> None:
        """To the policy, of what it meant as a call."""
        self._items.append({"type": "message", "role": "user", "content": text})

    def response(self, *, since: int = 0) -> dict[str, Any]:
        """With the items from that number on."""
        return {
            "id": "resp_0",
            "created_at": 0.0,
            "model": "policy",
            "object": "response",
            "status": "completed",
            "output": self._items[since:],
            "parallel_tool_calls": self._params.get("parallel_tool_calls") is not False,
            "tool_choice": self._params.get("tool_choice") or "auto",
            "tools": self._params.get("tools") or [],
        }

    def _thought(self, words: str) -> None:
        before, closed, _ = words.rpartition("</think>")
        thought = (before if closed else words.partition("<think>")[2]).replace("<think>", "")
        if thought := thought.strip():
            summary: Sequence[Item] = [{"type": "summary_text", "text": thought}]
            self._items.append(
                {"type": "reasoning", "id": f"rs_{len(self._items)}", "summary": summary}
            )

    def _message(self, text: str) -> None:
        self._items.append(
            {
                "type": "message",
                "id": f"msg_{len(self._items)}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        )
