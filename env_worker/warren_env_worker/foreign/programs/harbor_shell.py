"""An agent for Harbor's trials that has a shell and nothing else, in the Python where Harbor is installed.

Invariant: the task's time for its agent counts what the commands take, and not the waiting for the model: a slow sampler
is none of the policy's doing.
"""

import importlib
import json
import os
import shlex
import time
from typing import Any

agents: Any = importlib.import_module("harbor.agents.base")
errors: Any = importlib.import_module("harbor.trial.errors")
openai: Any = importlib.import_module("openai")
_LOADED = openai.AsyncOpenAI(api_key="none").chat.completions
"""Before there are processes: a client imports what it uses, when it is used."""

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command in the task's container and see what it prints.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
KEY_VARIABLE = "OPENAI_API_KEY"
LATE = 124
KILL_AFTER_S = 5


class Shell(agents.BaseAgent):
    """Asks until the policy calls no tool any more, or has used up its calls."""

    def __init__(
        self,
        *given: Any,
        endpoint: str,
        max_calls: int,
        command_s: float,
        result_chars: int,
        limit_s: float | None,
        **named: Any,
    ) -> None:
        parent: Any = super()
        parent.__init__(*given, **named)
        self._endpoint = endpoint
        self._n_calls_left = max_calls
        self._command_s, self._result_chars = command_s, result_chars
        self._limit_s = limit_s
        self._taken_s = 0.0

    @staticmethod
    def name() -> str:
        return "warren-shell"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: Any) -> None:
        """It needs nothing in the container."""

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": instruction}]
        key = os.environ[KEY_VARIABLE]
        async with openai.AsyncOpenAI(base_url=self._endpoint, api_key=key, timeout=None) as client:
            while True:
                asked = {"model": self.model_name, "messages": messages, "tools": [TOOL]}
                answer = (await client.chat.completions.create(**asked)).choices[0].message
                messages.append(answer.model_dump(exclude_none=True))
                for call in answer.tool_calls or ():
                    told = await self._result_of(call.function, environment)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
                if not answer.tool_calls or self._n_calls_left <= 0:
                    return

    async def _result_of(self, function: Any, environment: Any) -> str:
        self._n_calls_left -= 1
        if self._n_calls_left < 0:
            return "error: there is no call left"
        try:
            command = json.loads(function.arguments)["command"]
        except (ValueError, KeyError, TypeError):
            command = None
        if function.name != TOOL["function"]["name"] or not isinstance(command, str):
            return 'error: call the tool shell with {"command": "…"}'
        return await self._printed_by(command, environment)

    async def _printed_by(self, command: str, environment: Any) -> str:
        left_s = self._command_s
        if self._limit_s is not None:
            left_s = min(left_s, self._limit_s - self._taken_s)
        begun = time.monotonic()
        limit = ["timeout", f"--kill-after={KILL_AFTER_S}", f"{max(left_s, 0.01):.2f}"]
        done = await environment.exec(shlex.join([*limit, "bash", "-c", command]))
        self._taken_s += time.monotonic() - begun
        if self._limit_s is not None and self._taken_s >= self._limit_s:
            raise errors.AgentTimeoutError(f"its commands took the task's {self._limit_s:g} s")
        printed = shortened((done.stdout or "") + (done.stderr or ""), self._result_chars)
        if done.return_code == LATE:
            return f"{printed}\n[stopped after {left_s:g} s]"
        return printed if done.return_code == 0 else f"{printed}\n[exit code {done.return_code}]"


def shortened(text: str, n_chars: int) -> str:
    """Its beginning and its end."""
    if len(text) <= n_chars:
        return text
    half = n_chars // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
