r"""Answer questions with the help of tools that MCP servers offer.

    environments:
      - name: mcp
        config:
          servers: {search: {kind: http, url: "https://search.example.org/mcp"}}
          path: questions.jsonl

The tools stand in the system prompt. A turn that calls some has them called in their order and is shown what they
answer; a turn without a call is the answer, and ends the episode like one of `math`: the verifier gives
the reward. When all calls are used up, the next turn is the answer.

The client runs in a virtual environment of its own (`warren env install mcp`), each episode in a process of its own
(`warren_env_worker.foreign`), and so does each server that is a program. What a tool refuses is said to the policy. A
session that is lost is begun anew, and all calls are made again: the episode goes on if they are answered as before.

Metrics: those of `math`; `tool_calls`, `tool_errors`, `parse_errors`; `tool_timeouts`, which are errors, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import PositiveInt

from warren.environment import ChatMessage, ConfigError, Context, Limits, StepResult
from warren.host_services.verdict import AnswerForm
from warren_env_worker.environments.math import Math
from warren_env_worker.environments.mcp.answers import OPENED, TOOLS, Result, within
from warren_env_worker.environments.mcp.servers import McpServer, Reached, ServerName
from warren_env_worker.environments.mcp.tools import Tools
from warren_env_worker.environments.questions import Question
from warren_env_worker.environments.tool_calls import Misfit, ReadCall, ToolCalls, as_told
from warren_env_worker.foreign.episode import ForeignEpisode
from warren_env_worker.foreign.package import package
from warren_env_worker.permissions.retries import MAX_CALL_S, OfCallS
from warren_schemas.chat.tool_formats import tools_prompt
from warren_schemas.config import ToolFormat

_LAST = "\n[this was the last call; give your answer now]"
_CHANGED = "[the tools have changed]\n"


class Mcp(Math):
    name = "mcp"
    version = "1"
    single_turn = False
    limits = Limits(reset_s=MAX_CALL_S, step_s=MAX_CALL_S)  # servers start, and tools run long

    def __init__(
        self,
        servers: Mapping[ServerName, McpServer],
        path: str | None = None,
        answer_form: AnswerForm = AnswerForm.AUTO,
        instruction: str | None = None,
        system_prompt: str | None = None,
        needs_answers: bool = True,
        tool_format: ToolFormat = ToolFormat.HERMES,
        max_calls: PositiveInt = 16,
        call_s: OfCallS = 60.0,
        result_chars: PositiveInt = 20_000,
        patience_s: OfCallS = 60.0,
    ) -> None:
        """The servers by names of their own; questions and rewards as in `math`.

        A call may take `call_s`, and of its result `result_chars` are shown. A server that can't be had fails the
        episode after `patience_s`.
        """
        super().__init__(path, answer_form, instruction, system_prompt, needs_answers)
        if not servers:
            raise ConfigError("servers: name at least one")
        self.servers = [Reached(name, server, self.permissions) for name, server in servers.items()]
        self.tools = Tools(self.servers)
        self.calls = ToolCalls(tool_format)
        self.n_calls_left = max_calls
        self.call_s, self.patience_s = call_s, patience_s
        self.result_chars = result_chars
        self.instructions = list[str]()
        self.changing = list[str]()
        """Servers that are asked for their tools after each turn."""
        self.episode: ForeignEpisode | None = None
        self.counts = {"tool_timeouts": 0.0}

    async def reset(self, task: Question, ctx: Context) -> Sequence[ChatMessage]:
        shown = await super().reset(task, ctx)
        self.episode = ForeignEpisode(
            package("mcp", "mcp_episode.py"),
            {
                "servers": {each.name: await each.told(ctx.secrets) for each in self.servers},
                "call_s": self.call_s,
                "patience_s": self.patience_s,
            },
        )
        opened = OPENED.validate_python(await self.episode.begin())
        self.tools.replace({name: server.tools for name, server in opened.items()})
        self.instructions = [each.instructions for each in opened.values() if each.instructions]
        self.changing = [name for name, server in opened.items() if server.may_change]
        for name in opened.keys() - set(self.changing):
            self.tools.require_chosen(name)
        form = ToolFormat(ctx.tool_format or self.calls.form)
        self.calls = ToolCalls(form, self.tools.told)
        return shown

    def system_prompt(self) -> str | None:
        given = super().system_prompt()
        parts = [*([given] if given else []), *self.instructions]
        return self.calls.system_prompt("\n\n".join(parts))

    async def step(self, action: str) -> StepResult:
        calls = self.calls.read(action) if self.n_calls_left > 0 else []
        if not calls:
            result = await self.finish(action)
            return replace(result, metrics={**result.metrics, **self._counts})
        shown = [await self._told(call) for call in calls]
        shown += await self._changes()
        if self.n_calls_left == 0:
            shown[-1] = shown[-1].model_copy(update={"content": shown[-1].content + _LAST})
        return StepResult(shown, metrics=self._counts)

    async def close(self) -> None:
        if self.episode is not None:
            await self.episode.leave({"leave": True})

    async def _told(self, call: ReadCall | Misfit) -> ChatMessage:
        if self.n_calls_left == 0:
            return _error("there is no call left", self.result_chars)
        self.n_calls_left -= 1
        if isinstance(call, Misfit):
            return _error(call.reason, self.result_chars)
        result = await self._called(call)
        error = result.error(self.call_s)
        self.calls.count(is_refused=result.is_error or error is not None)
        self.counts["tool_timeouts"] += result.is_late
        if error is not None:
            return _error(error, self.result_chars)
        return result.message(self.result_chars)

    async def _called(self, call: ReadCall) -> Result:
        server, tool = self.tools.where(call.name)
        asked = {"server": server, "tool": tool, "arguments": call.arguments}
        return Result.model_validate(await self._playing.step(asked))

    async def _changes(self) -> list[ChatMessage]:
        """What the policy is told of tools that are others now."""
        if not self.changing:
            return []
        found = TOOLS.validate_python(await self._playing.step({"tools_of": self.changing}))
        if not self.tools.replace(found):
            return []
        self.calls.tools = {tool.name: tool for tool in self.tools.told}
        told = tools_prompt([as_told(tool) for tool in self.tools.told], self.calls.form)
        return [ChatMessage(role="tool", content=_CHANGED + told)]

    @property
    def _playing(self) -> ForeignEpisode:
        assert self.episode is not None  # `reset` comes first
        return self.episode

    @property
    def _counts(self) -> dict[str, float]:
        return {**self.calls.counts, **self.counts}


def _error(reason: str, max_chars: int) -> ChatMessage:
    return ChatMessage(role="tool", content=f"Error: {within(reason, max_chars)}")
