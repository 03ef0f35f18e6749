"""An environment behind HTTP, in whatever language: see docs/environments-http.md.

environments:
  - name: http
    config: {url: "https://envs.example.org/quiz", config: {level: 3}}
    split: train
"""

import random
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from warren.environment import (
    ChatMessage,
    ConfigError,
    Context,
    Env,
    EpisodeTranscript,
    Limits,
    NoDemonstrations,
    Score,
    StepResult,
)
from warren_env_worker.environments.http.answers import DESCRIPTION, Description, shown
from warren_env_worker.environments.http.episode import Beginning, HttpEpisode
from warren_env_worker.environments.http.server import EnvServer
from warren_env_worker.permissions.permissions import current
from warren_env_worker.permissions.retries import MAX_CALL_S, OfCallS
from warren_env_worker.permissions.service import Service
from warren_schemas.fields.secret_variables import SecretVariable
from warren_schemas.text.explain import nearest

EXACT_IN_JSON = 2**53
"""Integers below it are the same in every language."""


class Http(Env[int | None]):
    name = "http"
    version = "1"
    has_levels = True
    limits = Limits(reset_s=MAX_CALL_S, step_s=MAX_CALL_S, score_s=MAX_CALL_S)

    def __init__(
        self,
        url: str,
        config: Mapping[str, JsonValue] | None = None,
        key_variable: SecretVariable | None = None,
        patience_s: OfCallS = 60.0,
        answer_s: OfCallS = 300.0,
    ) -> None:
        """`url` of the environment, and the `config` that it is sent.

        `key_variable` names the env worker's variable whose value is sent as a bearer token. A server that does
        not answer fails the episode after `patience_s`; one answer may take `answer_s`.
        """
        permissions = current()
        self.unkeyed = permissions.service(url, None)
        self.service = permissions.service(url, key_variable)
        self.config = dict(config or {})
        self.patience_s, self.answer_s = patience_s, answer_s
        self.episode: HttpEpisode | None = None
        self.scores = False
        self.demonstration: str | None = None

    async def tasks(self, split: str) -> Sequence[int] | None:
        server = self._server(self.unkeyed)
        try:
            n_tasks = _n_tasks(await server.ask(DESCRIPTION, "GET"), split)
        finally:
            await server.close()
        return None if n_tasks is None else range(n_tasks)

    async def reset(self, task: int | None, ctx: Context) -> list[ChatMessage]:
        server = self._server(self.service)
        number = ctx.index if task is None else task
        seed = ctx.seed % EXACT_IN_JSON
        beginning = Beginning(ctx.split, number, seed, ctx.member, ctx.level, dict(self.config))
        self.episode = HttpEpisode(server, beginning)
        begun = await self.episode.begin()
        self.task_id, self.category, self.scores = begun.task_id, begun.category, begun.scores
        self.demonstration = begun.demonstration
        return shown(begun.messages)

    async def step(self, action: str) -> StepResult:
        stepped = await self._playing.step(action)
        self.demonstration = stepped.demonstration
        return StepResult(
            shown(stepped.messages),
            stepped.reward,
            stepped.done,
            stepped.truncated,
            dict(stepped.metrics),
        )

    def demonstrate(self, rng: random.Random) -> str:
        if self.demonstration is None:
            raise NoDemonstrations(f"{self.unkeyed.url} gave no demonstration")
        return self.demonstration

    async def score(self, transcript: EpisodeTranscript) -> Score:
        return (await self._playing.score()).reward if self.scores else None

    async def close(self) -> None:
        if self.episode is not None:
            await self.episode.close()

    @property
    def _playing(self) -> HttpEpisode:
        assert self.episode is not None  # `reset` comes first
        return self.episode

    def _server(self, service: Service) -> EnvServer:
        return EnvServer(service, patience_s=self.patience_s, answer_s=self.answer_s)


def _n_tasks(description: Description, split: str) -> int | None:
    if split not in description.splits:
        names = list(description.splits)
        match = nearest(split, names)
        rest = f"did you mean {match}?" if match else f"it has {', '.join(names)}"
        raise ConfigError(f"split: {description.name} has no split {split}; {rest}")
    return description.splits[split]
