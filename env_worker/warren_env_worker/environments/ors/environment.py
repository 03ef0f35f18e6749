"""Tasks of an ORS server: the policy calls its tools until one of them says that it is finished.

    environments:
      - name: ors
        config: {url: "https://ors.example.org/", environment: whodunit}
        split: train

The server's prompt is the first message, its tools stand in the system prompt. Every call is made in its order;
its blocks are shown as a message of the role `tool`, and the rewards of a turn's calls are added up. `finished`
ends the episode. Words without a call go to the server's terminal tool, where it has one; otherwise they cut the
episode, and the run's `nonterminal_reward` counts.

Metrics: `tool_calls`; `tool_errors` (unknown tool, arguments that the server refuses); `parse_errors`.
"""

import re
from collections.abc import Mapping, Sequence

from warren.environment import ChatMessage, ConfigError, Context, Env, Limits, StepResult
from warren_env_worker.environments.ors.answers import Done, Refused, Tools, message
from warren_env_worker.environments.ors.redirects import PLAIN
from warren_env_worker.environments.ors.secrets import Domains, Place, secrets_for
from warren_env_worker.environments.ors.server import OrsFailed, OrsServer
from warren_env_worker.environments.ors.session import OrsSession, Task
from warren_env_worker.environments.ors.tasks import TaskList
from warren_env_worker.environments.ors.told_ids import told_id
from warren_env_worker.environments.tool_calls import Misfit, ReadCall, ToolCalls
from warren_env_worker.permissions.permissions import current
from warren_env_worker.permissions.retries import MAX_CALL_S, OfCallS
from warren_schemas.chat.answer_text import spoken
from warren_schemas.config import ToolFormat
from warren_schemas.fields.secret_variables import SecretVariable

_NAME = re.compile(rf"({PLAIN}/)?{PLAIN}", re.ASCII)
"""A part of a path; or of a header, with an owner before it."""


def _require_plain(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "environment: expected letters, digits and ._-, as the server lists its environments, or Owner/Name"
        )


class Ors(Env[int]):
    name = "ors"
    version = "1"
    limits = Limits(
        reset_s=MAX_CALL_S, step_s=MAX_CALL_S
    )  # servers start machines, and tools run for minutes

    def __init__(
        self,
        url: str,
        environment: str,
        key_variable: SecretVariable | None = None,
        secrets: Mapping[str, SecretVariable] | None = None,
        secrets_in: Place | None = None,
        secret_domains: Domains | None = None,
        start: int | None = None,
        stop: int | None = None,
        ids: tuple[str, ...] = (),
        system_prompt: str | None = None,
        tool_format: ToolFormat = ToolFormat.HERMES,
        without_group_scores: bool = False,
        patience_s: OfCallS = 60.0,
    ) -> None:
        """`url` of the server, and the name of one of its environments; one with its owner's name before it
        (`Owner/Name`) is named by the header `X-Deployment`, as OpenReward's own servers want it; a server that
        does not read the header gives its first environment.

        `key_variable` names the env worker's variable whose value is sent as `X-API-Key`; `secrets` names those
        that the environment asks for, sent by header unless `secrets_in` says otherwise; to which hosts the server may let
        each of them go on, `secret_domains` says. `start`, `stop` and `ids` choose among the tasks of the split.
        `system_prompt` goes before the task's own and the tools. An environment that scores whole groups is refused
        unless `without_group_scores` says that what its calls reward is enough. A server that does not answer fails the episode after `patience_s`.
        """
        _require_plain(environment)
        permissions = current()
        self.unkeyed = permissions.service(url, None)
        self.service = permissions.service(url, key_variable)
        self.secrets = secrets_for(
            permissions, url, secrets or {}, secret_domains or {}, secrets_in
        )
        self.environment = environment
        self.range = (start, stop)
        self.ids = ids
        self.prefaces = (system_prompt, None)
        self.without_group_scores = without_group_scores
        self.calls = ToolCalls(tool_format)
        self.patience_s = patience_s
        self.tools = Tools(tools=())
        self.session: OrsSession | None = None
        self.told_ids: dict[int, str] = {}

    async def tasks(self, split: str) -> Sequence[int]:
        start, stop = self.range
        by_id = bool(self.ids) or self.wants_task_ids
        if stop is not None and stop >= 0 and (start or 0) >= 0 and not by_id:
            return range(start or 0, stop)
        server = OrsServer(self.unkeyed, self.environment, patience_s=self.patience_s)
        try:
            listed = TaskList(server, self.environment, split)
            numbers = await listed.numbers(start, stop)
            self.told_ids = await listed.ids(numbers) if by_id else {}
            return listed.having(self.ids, self.told_ids) if self.ids else numbers
        except OrsFailed as error:
            raise OrsFailed(f"{error}{self._hint}") from error
        finally:
            await server.close()

    def id_of(self, task: int) -> str | None:
        """Where the run's config names tasks; an episode asks for that of its own."""
        return self.told_ids.get(task)

    async def reset(self, task: int, ctx: Context) -> list[ChatMessage]:
        server = OrsServer(self.service, self.environment, patience_s=self.patience_s)
        self.session = OrsSession(server, Task(self.environment, ctx.split, task), self.secrets)
        opening = await self.session.open()
        self.task_id = await self._asked_id(server, ctx.split, task)
        self.tools = opening.tools
        self._require_scores()
        self.prefaces = (self.prefaces[0], opening.system)
        self.calls = ToolCalls(ToolFormat(ctx.tool_format or self.calls.form), self.tools.told)
        return opening.shown(self.calls.form)

    def system_prompt(self) -> str | None:
        """The config's and the task's in one message: not every model takes two."""
        return self.calls.system_prompt("\n\n".join(filter(None, self.prefaces)) or None)

    async def step(self, action: str) -> StepResult:
        calls = self.calls.read(action)
        if not calls:
            return await self._answered(spoken(action).strip())
        shown, rewards = list[ChatMessage](), list[float]()
        for call in calls:
            reply = await self._called(call)
            shown.append(_shown(reply))
            if isinstance(reply, Done):
                rewards += [] if reply.output.reward is None else [reply.output.reward]
                if reply.output.finished:
                    return self._result(shown, rewards, done=True)
        return self._result(shown, rewards)

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()

    def _require_scores(self) -> None:
        """Raises `ConfigError` where a part of the reward would be missing without a word."""
        scores_groups = bool(self.tools.supports_score_group)
        if scores_groups and not self.without_group_scores:
            raise ConfigError(
                f"{self.environment} scores whole groups (score_group), which is not asked: what its calls reward"
                " would be all. If that is enough, or the run's `rewards` rates the episodes,"
                " give without_group_scores: true"
            )
        if self.without_group_scores and not scores_groups:
            raise ConfigError(
                f"without_group_scores has no effect: {self.environment} scores no groups; leave it out"
            )

    async def _asked_id(self, server: OrsServer, split: str, task: int) -> str | None:
        if self.ids:  # by which the config chose this task
            return await server.task_id(split, task)
        return await told_id(server, split, task, patience_s=self.patience_s)

    async def _answered(self, words: str) -> StepResult:
        terminal = self.tools.terminal_tool
        if terminal is None:
            return self._result([], truncated=True)
        arguments = {} if terminal.arg is None else {terminal.arg: words}
        reply = await self._called(self.calls.sendable(terminal.name, arguments))
        if isinstance(reply, Refused):
            return self._result([_shown(reply)])
        shown = [_shown(reply)] if reply.output.blocks else []
        reward = reply.output.reward
        return self._result(shown, [] if reward is None else [reward], done=True)

    async def _called(self, call: ReadCall | Misfit) -> Done | Refused:
        if isinstance(call, Misfit):
            return Refused(ok=False, error=call.reason)
        assert self.session is not None  # `reset` comes first
        reply = await self.session.call(call.name, call.arguments)
        self.calls.count(is_refused=isinstance(reply, Refused))
        return reply

    def _result(
        self,
        shown: Sequence[ChatMessage],
        rewards: Sequence[float] = (),
        *,
        done: bool = False,
        truncated: bool = False,
    ) -> StepResult:
        reward = sum(rewards) if rewards else None
        return StepResult(shown, reward, done, truncated, dict(self.calls.counts))

    @property
    def _hint(self) -> str:
        """It knows of the config alone, and nothing of what the server said."""
        if self.service == self.unkeyed:
            return ""
        return "; tasks are counted without the key: if the server wants it for that, give `stop`"


def _shown(reply: Done | Refused) -> ChatMessage:
    if isinstance(reply, Refused):
        return ChatMessage(role="tool", content=f"Error: {reply.error}")
    return message("tool", reply.output.blocks)
