"""Games of TextArena for one player.

    environments:
      - name: textarena
        config: {game: GuessTheNumber-v0}

The package runs in a virtual environment of its own (`warren env install textarena`), each episode in a process of
its own (`warren_env_worker.foreign`), which the task's seed seeds. The game's first words are the prompt; then the
policy is shown what the game says to its move. The game's reward comes with its end.
"""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from warren.environment import ConfigError, Context, Env, Limits, StepResult
from warren_env_worker.foreign.episode import ForeignEpisode
from warren_env_worker.foreign.package import package

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)


class TextArena(Env):
    name = "textarena"
    version = "1"
    limits = Limits(reset_s=120.0, step_s=60.0)

    def __init__(
        self,
        game: str,
        arguments: Mapping[str, JsonValue] | None = None,
        system_prompt: str | None = None,
    ) -> None:
        """The game's id, and what `textarena.make` gets besides."""
        if not _ID.fullmatch(game):
            raise ConfigError("game: expected the id of a game, such as GuessTheNumber-v0")
        self.game = game
        self.arguments = dict(arguments or {})
        self.preface = system_prompt
        self.episode: ForeignEpisode | None = None

    async def reset(self, task: None, ctx: Context) -> str:
        made = {"game": self.game, "arguments": self.arguments, "seed": ctx.seed}
        self.episode = ForeignEpisode(package("textarena", "textarena_episode.py"), made)
        return (await self.episode.begin())["shown"]

    def system_prompt(self) -> str | None:
        return self.preface

    async def step(self, action: str) -> StepResult:
        assert self.episode is not None  # `reset` comes first
        answer = await self.episode.step(action)
        return StepResult(answer["shown"], answer["reward"], answer["done"])

    async def close(self) -> None:
        if self.episode is not None:
            self.episode.close()
