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

from warren.environment import ConfigError, Context, Limits
from warren_env_worker.environments.text.environment import TextEnv
from warren_env_worker.environments.text.settings import TextSettings

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)


class TextArena(TextEnv):
    name = "textarena"
    version = "1"
    limits = Limits(reset_s=120.0, step_s=60.0)
    given = "[{action}]"

    def __init__(
        self,
        game: str,
        arguments: Mapping[str, JsonValue] | None = None,
        system_prompt: str | None = None,
        text: TextSettings | None = None,
    ) -> None:
        """The game's id, and what `textarena.make` gets besides."""
        if not _ID.fullmatch(game):
            raise ConfigError("game: expected the id of a game, such as GuessTheNumber-v0")
        self.game = game
        self.arguments = dict(arguments or {})
        super().__init__(text, system_prompt)

    def made(self, task: None, ctx: Context) -> Mapping[str, object]:
        return {"game": self.game, "arguments": self.arguments, "seed": ctx.seed}
