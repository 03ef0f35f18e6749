"""Tasks of NeMo Gym, with the tools of a resource server, which judges at the end.

    environments:
      - name: nemo_gym
        config: {url: "http://gym.example.org:8000/", path: "workplace/{split}.jsonl"}
        split: train

The row's `input` is the prompt, its tools stand in the system prompt, and calls are made in their order: what the server answers is
shown as a message of the role `tool`, whatever its status. Words without a call end the episode; so does the cut at
`max_turns`. Then `verify` gives the reward.

Metrics: the numbers in the answer of `verify`; and where there are tools, `tool_calls`, `tool_errors`, `parse_errors`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson
from pydantic import PositiveInt

from warren.environment import (
    ChatMessage,
    ConfigError,
    Context,
    Env,
    EpisodeTranscript,
    Limits,
    ScoreResult,
    StepResult,
)
from warren_env_worker.environments.mcp.answers import within
from warren_env_worker.environments.nemo_gym import rows
from warren_env_worker.environments.nemo_gym.mcp_tools import McpTools
from warren_env_worker.environments.nemo_gym.response import ResponseItems
from warren_env_worker.environments.nemo_gym.session import GymSession
from warren_env_worker.environments.tool_calls import Misfit, ReadCall, ToolCalls
from warren_env_worker.permissions.permissions import current
from warren_env_worker.permissions.retries import MAX_CALL_S, OfCallS
from warren_schemas.config import ToolFormat
from warren_schemas.datasets.row_ids import row_id
from warren_schemas.fields.secret_variables import SecretVariable

_ONE_CALL = "only the first call of a turn is made"


class NemoGym(Env[bytes]):
    """A task is a row, as its line of JSON."""

    name = "nemo_gym"
    version = "1"
    limits = Limits(reset_s=MAX_CALL_S, step_s=MAX_CALL_S, score_s=MAX_CALL_S)  # judges take long
    needs_prompt: ClassVar[bool] = True
    """Whether each row must have words for the policy."""

    def __init__(
        self,
        url: str,
        path: str | None = None,
        key_variable: SecretVariable | None = None,
        system_prompt: str | None = None,
        tool_format: ToolFormat = ToolFormat.HERMES,
        result_chars: PositiveInt = 20_000,
        patience_s: OfCallS = 60.0,
    ) -> None:
        """`url` of the resource server. `path` of a file of JSON lines below the env worker's data root, unless the
        run's config names a `dataset` for the environment; `{split}` in it stands for the split.

        `key_variable` names the env worker's variable whose value is sent as a bearer token. `system_prompt` goes before
        the row's own. Of what a call gives, `result_chars` are shown. A server that does not answer fails the episode
        after `patience_s`.
        """
        self.permissions = current()
        self.service = self.permissions.service(url, key_variable)
        self.path = path
        self.preface = system_prompt
        self.calls = ToolCalls(tool_format)
        self.result_chars = result_chars
        self.patience_s = patience_s
        self.session: GymSession | None = None
        self.by_mcp: McpTools | None = None
        """Of a row that names no tools, where the server offers some."""
        self.is_judged = False

    def tasks(self, split: str) -> Sequence[bytes]:
        if self.path is None:
            raise ConfigError(
                "nothing says where the tasks are: give `path` in config, or a `dataset` beside it"
            )
        path = self.path.replace("{split}", split)
        return rows.read_rows(path, self.permissions, needs_prompt=self.needs_prompt)

    def task_of(self, row: Mapping[str, Any]) -> bytes:
        if self.path is not None:
            raise ConfigError("config.path has no effect beside a dataset; leave one of them out")
        return orjson.dumps(row)

    def id_of(self, task: bytes) -> str | None:
        return row_id(orjson.loads(task))

    async def reset(self, task: bytes, ctx: Context) -> Sequence[ChatMessage]:
        self.begin(task, ctx)
        self.session = GymSession(
            self.service,
            self.task.row,
            patience_s=self.patience_s,
            wants_mcp=self.task.leaves_tools_to_server,
        )
        await self.session.open()
        if (path := self.session.mcp_path) is not None:
            self.by_mcp = McpTools(self.session, path, self.result_chars)
            self.calls = ToolCalls(self.calls.form, await self.by_mcp.specs())
        return self.task.messages

    def begin(self, task: bytes, ctx: Context) -> None:
        self.task = rows.task(task, needs_prompt=self.needs_prompt)
        self.category = self.task.category
        self.items = ResponseItems(self.task.params)
        self.calls = ToolCalls(ToolFormat(ctx.tool_format or self.calls.form), self.task.tools)

    def system_prompt(self) -> str | None:
        """Ours and the row's, in one message: not every model takes two."""
        given = [part for part in (self.preface, *self.task.system) if part]
        return self.calls.system_prompt("\n\n".join(given) or None)

    async def step(self, action: str) -> StepResult:
        calls = self.calls.read(action) if self.calls.tools else []
        if not calls:
            self.items.said(action)
            verdict = await self._verdict()
            return StepResult(
                reward=verdict.reward, done=True, metrics={**verdict.metrics, **self.counts}
            )
        self.items.said(action, before_calls=any(call_in(each) for each in calls))
        n_made = 1 if self.task.takes_one_call else len(calls)
        shown = [await self._told(each) for each in calls[:n_made]]
        shown += [_error(_ONE_CALL) for _ in calls[n_made:]]
        return StepResult(shown, metrics=self.counts)

    async def score(self, transcript: EpisodeTranscript) -> ScoreResult | None:
        """Of an episode that was cut."""
        return None if self.is_judged else await self._verdict()

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()

    async def _told(self, each: ReadCall | Misfit) -> ChatMessage:
        call = call_in(each)
        if isinstance(each, ReadCall):
            shown, is_error = await self._given(each)
            self.calls.count(is_refused=is_error)
        else:
            shown = _error(each.reason)
        if call is not None:
            self.items.called(call, shown.content)
        else:
            self.items.told(shown.content)
        return shown

    async def _given(self, call: ReadCall) -> tuple[ChatMessage, bool]:
        """What the call gave, and whether that is an error."""
        if self.by_mcp is not None:
            return await self.by_mcp.call(call)
        answer = await self.playing.call(call.name, call.arguments)
        told = within(answer.text, self.result_chars)
        return ChatMessage(role="tool", content=told), answer.is_error

    async def _verdict(self) -> ScoreResult:
        verdict = await self.playing.verify(self.items.response())
        self.is_judged = True
        return ScoreResult(verdict.reward, verdict.numbers(self.task.row))

    @property
    def playing(self) -> GymSession:
        assert self.session is not None  # `reset` comes first
        return self.session

    @property
    def counts(self) -> dict[str, float]:
        return dict(self.calls.counts) if self.calls.tools else {}


def call_in(each: ReadCall | Misfit) -> ReadCall | None:
    """What the policy called, also where there is no such tool."""
    return each if isinstance(each, ReadCall) else each.tried


def _error(reason: str) -> ChatMessage:
    return ChatMessage(role="tool", content=f"Error: {reason}")
