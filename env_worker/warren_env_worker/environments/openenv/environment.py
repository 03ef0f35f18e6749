"""Environments of an OpenEnv server: text, actions with fields, and tools (MCP).

    environments:
      - name: openenv
        config: {url: "https://openenv.example.org/"}

Where an action is a text, the policy's words are it. Another action is offered as a tool, whose arguments are its
fields; an environment with tools of its own offers these. Calls are made in their order, their rewards are added up,
and words without a call cut the episode. A reward that `reset` gives is added to that of the first action that is made.

Metrics: `steps`; and where there are tools, `tool_calls`, `tool_errors`, `parse_errors`; otherwise `invalid_actions`, which the
policy is told of and which change nothing.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from pydantic import JsonValue

from warren.environment import ChatMessage, ConfigError, Context, Env, Limits, StepResult
from warren_env_worker.environments.openenv.actions import LIST_TOOLS, Actions
from warren_env_worker.environments.openenv.answers import Error, Observed, Tools
from warren_env_worker.environments.openenv.server import OpenEnvFailed, OpenEnvServer
from warren_env_worker.environments.openenv.session import Action, OpenEnvSession
from warren_env_worker.environments.ors.server import OrsServer
from warren_env_worker.environments.ors.tasks import TaskList
from warren_env_worker.environments.ors.told_ids import told_id
from warren_env_worker.environments.tool_calls import Misfit, ReadCall, ToolCalls, ToolSpec
from warren_env_worker.permissions.permissions import current
from warren_env_worker.permissions.retries import MAX_CALL_S, OfCallS
from warren_schemas.chat.answer_text import spoken
from warren_schemas.config import ToolFormat
from warren_schemas.fields.secret_variables import SecretVariable

MAX_SEED = 2**31
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,127}", re.ASCII)
"""A part of a path, nothing that leads out of it."""


def _require_open(arguments: Mapping[str, JsonValue], *, has_tasks: bool) -> None:
    """Raises `ConfigError` for what each episode has of its own."""
    if "seed" in arguments:
        raise ConfigError(
            "reset.seed: each episode gets a seed of its own, the same for all of a group; leave it out"
        )
    named = [name for name in ("split", "index") if has_tasks and name in arguments]
    if named:
        raise ConfigError(
            f"reset.{named[0]}: the tasks of tasks_of have their own; leave one of the two out"
        )


class OpenEnv(Env[int | None]):
    name = "openenv"
    version = "1"
    limits = Limits(
        reset_s=MAX_CALL_S, step_s=MAX_CALL_S
    )  # sessions are waited for, and tools run long

    def __init__(
        self,
        url: str,
        tasks_of: str | None = None,
        reset: Mapping[str, JsonValue] | None = None,
        shown: tuple[str, ...] = (),
        action_field: str | None = None,
        action_tool: str | None = None,
        key_variable: SecretVariable | None = None,
        system_prompt: str | None = None,
        tool_format: ToolFormat | None = None,
        patience_s: OfCallS = 60.0,
    ) -> None:
        """`url` of the server. `tasks_of` is the environment's name in the server's list, where it has tasks;
        without it, each episode begins from its seed. `reset` is what `reset` gets besides.

        `shown` names the fields of an observation that the policy is shown (`metadata.prompt`), `action_field` the field
        of an action that its words are; `action_tool` offers the action as a tool of this name. `key_variable` names
        the env worker's variable whose value is sent as a bearer token.
        """
        if action_field is not None and action_tool is not None:
            raise ConfigError("action_field and action_tool: words are an action, or call one")
        if tasks_of is not None and not _NAME.fullmatch(tasks_of):
            raise ConfigError("tasks_of: expected letters, digits and ._-, as the server lists it")
        self.arguments = dict(reset or {})
        _require_open(self.arguments, has_tasks=tasks_of is not None)
        self.unkeyed = current().service(url, None)
        self.service = current().service(url, key_variable)
        self.tasks_of = tasks_of
        self.fields = shown
        self.acting = (action_field, action_tool)
        self.preface = system_prompt
        self.tool_format = tool_format
        self.calls = ToolCalls(tool_format or ToolFormat.HERMES)
        self.patience_s = patience_s
        self.session: OpenEnvSession | None = None
        self.counts = {"steps": 0.0}
        self.owed: float | None = None
        """What `reset` gave, which counts with the first action that is made: only an action has a reward."""
        self.told_ids: dict[int, str] = {}
        self._told_last: tuple[Observed | None, str] = (None, "")

    async def tasks(self, split: str) -> Sequence[int] | None:
        if self.tasks_of is None:
            return None
        async with self._task_server(self.tasks_of) as server:
            listed = TaskList(server, self.tasks_of, split)
            numbers = await listed.numbers(None, None)
            self.told_ids = await listed.ids(numbers) if self.wants_task_ids else {}
            return numbers

    def id_of(self, task: int | None) -> str | None:
        """Where the run's config names tasks; an episode asks for that of its own."""
        return None if task is None else self.told_ids.get(task)

    async def reset(self, task: int | None, ctx: Context) -> list[ChatMessage]:
        server = OpenEnvServer(self.service, patience_s=self.patience_s)
        of_task = {} if task is None else {"split": ctx.split, "index": task}
        beginning = {"seed": ctx.seed % MAX_SEED, **of_task, **self.arguments}
        self.session = OpenEnvSession(server, beginning, self._text)
        self.actions = Actions((await server.schema()).action, *self.acting)
        self._require_calls()
        first = await self.session.begin()
        if first.done:
            raise OpenEnvFailed(f"{server.url}: the episode is over before it begins")
        self.owed = first.reward or None  # most servers write 0 there, which is no reward either
        self.task_id = await self._asked_id(task, ctx.split)
        form = ToolFormat(ctx.tool_format or self.calls.form)
        self.calls = ToolCalls(form, self.actions.tools(await self._tools()))
        return [ChatMessage(role="user", content=self._text(first))]

    def system_prompt(self) -> str | None:
        return self.calls.system_prompt(self.preface)

    async def step(self, action: str) -> StepResult:
        if self.actions.field is not None:
            return await self._said(self.actions.of_words(spoken(action).strip()))
        calls = self.calls.read(action)
        shown, rewards = list[ChatMessage](), list[float]()
        for call in calls:
            answer = await self._called(call)
            shown.append(ChatMessage(role="tool", content=self._told(answer)))
            if isinstance(answer, Observed):
                rewards += self._paid(answer)
                if answer.done:
                    return self._result(shown, rewards, done=True)
        return self._result(shown, rewards, truncated=not calls)

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()

    def _require_calls(self) -> None:
        """Raises `ConfigError` for a format of calls where none are read."""
        if self.tool_format is not None and self.actions.field is not None:
            raise ConfigError(
                f"tool_format has no effect: the policy's words are the action's field {self.actions.field};"
                " leave it out, or offer the action as a tool with action_tool"
            )

    async def _asked_id(self, task: int | None, split: str) -> str | None:
        if task is None or self.tasks_of is None:
            return None
        async with self._task_server(self.tasks_of) as server:
            return await told_id(server, split, task, patience_s=self.patience_s)

    @asynccontextmanager
    async def _task_server(self, environment: str) -> AsyncGenerator[OrsServer]:
        """Of the same address: the API of tasks is that of ORS."""
        server = OrsServer(self.unkeyed, environment, patience_s=self.patience_s)
        try:
            yield server
        finally:
            await server.close()

    async def _tools(self) -> Sequence[ToolSpec]:
        if not self.actions.has_tools:
            return ()
        answer = await self._sent(LIST_TOOLS)
        if isinstance(answer, Error):
            raise OpenEnvFailed(f"{self.service.url} lists no tools: {answer.told}")
        return Tools.model_validate(answer.observation).tools

    async def _said(self, action: Action) -> StepResult:
        answer = await self._sent(action)
        shown = [ChatMessage(role="user", content=self._told(answer))]
        if isinstance(answer, Error):
            self.counts["invalid_actions"] = self.counts.get("invalid_actions", 0.0) + 1
            return self._result(shown)
        self.counts["steps"] += 1
        return self._result(shown, self._paid(answer), done=answer.done)

    async def _called(self, call: ReadCall | Misfit) -> Observed | Error | Misfit:
        if isinstance(call, Misfit):
            return call
        answer = await self._sent(self.actions.of_call(call))
        is_refused = isinstance(answer, Error) or answer.tool_error is not None
        self.calls.count(is_refused=is_refused)
        self.counts["steps"] += not is_refused
        return answer

    async def _sent(self, action: Action) -> Observed | Error:
        assert self.session is not None  # `reset` comes first
        return await self.session.step(action)

    def _text(self, observed: Observed) -> str:
        """Kept for who asks for the same again: the session does, for its digest."""
        if observed is not self._told_last[0]:
            error = observed.tool_error
            text = f"Error: {error}" if error is not None else observed.text(self.fields)
            self._told_last = (observed, text)
        return self._told_last[1]

    def _told(self, answer: Observed | Error | Misfit) -> str:
        if isinstance(answer, Observed):
            return self._text(answer)
        return f"Error: {answer.reason if isinstance(answer, Misfit) else answer.told}"

    def _paid(self, answer: Observed) -> list[float]:
        """The rewards of an action that was made."""
        given = [reward for reward in (self.owed, answer.reward) if reward is not None]
        self.owed = None
        return given

    def _result(
        self,
        shown: Sequence[ChatMessage],
        rewards: Sequence[float] = (),
        *,
        done: bool = False,
        truncated: bool = False,
    ) -> StepResult:
        metrics = self.counts | (self.calls.counts if self.calls.tools else {})
        return StepResult(shown, sum(rewards) if rewards else None, done, truncated, metrics)
