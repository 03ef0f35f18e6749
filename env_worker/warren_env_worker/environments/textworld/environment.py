"""Text adventures of TextWorld, which are made on the spot, each from its number.

    environments:
      - name: textworld
        config: {challenge: tw-coin_collector, settings: {level: 5}}

The package runs in a virtual environment of its own (`warren env install textworld`), each episode in a process of its
own (`warren_env_worker.foreign`). Games are kept where they were made, and a machine that lacks one makes it.

Invariant: challenge, settings, split and number decide the game, so that the same number is the same task on every
machine; its points are rewards whose sum is 1 for whoever wins.

Metrics: `won`; `steps` that were taken; `invalid_commands`, which the policy is told of and which change nothing.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence

from warren.environment import ConfigError, Context, Limits
from warren.settings import warren_home
from warren_env_worker.environments.text.environment import NoAction, TextEnv
from warren_env_worker.environments.text.settings import TextSettings
from warren_env_worker.environments.textworld.commands import command_in

MAX_GAMES = 1_000_000
Setting = str | int | bool
_NAME = re.compile(r"[a-z][\w-]{0,63}", re.ASCII)


class TextWorld(TextEnv[int]):
    name = "textworld"
    version = "1"
    limits = Limits(reset_s=600.0, step_s=60.0)
    form = "marked"
    word = "command"
    blank = "COMMAND"
    counted = ("won", "steps", "invalid_commands")
    tells_admissible = True

    def __init__(
        self,
        challenge: str,
        settings: Mapping[str, Setting] | None = None,
        split_settings: Mapping[str, Mapping[str, Setting]] | None = None,
        games: int = 100,
        list_commands: bool = False,
        system_prompt: str | None = None,
        text: TextSettings | None = None,
    ) -> None:
        """What `tw-make CHALLENGE` gets, `split_settings` only for one of the run's splits, and how many games a
        split has. `list_commands` shows what would do something. `system_prompt` goes before the sentence that says
        how to act.
        """
        if not _NAME.fullmatch(challenge):
            raise ConfigError("challenge: expected the name of one, such as tw-simple")
        if not 1 <= games <= MAX_GAMES:
            raise ConfigError(f"games: expected from 1 to {MAX_GAMES:,}")
        self.of_split = {split: dict(of) for split, of in (split_settings or {}).items()}
        self.settings = dict(settings or {})
        _require_names({name for of in (self.settings, *self.of_split.values()) for name in of})
        self.challenge = challenge
        self.games = games
        self.category = challenge
        super().__init__(text, system_prompt, lists=list_commands)

    def tasks(self, split: str) -> Sequence[int]:
        return range(self.games)

    def how(self) -> str:
        return f"You play a text adventure. {super().how()}"

    def made(self, task: int, ctx: Context) -> Mapping[str, object]:
        return {
            "challenge": self.challenge,
            "settings": {**self.settings, **self.of_split.get(ctx.split, {})},
            "seed": _seed(ctx.split, task),
            "games": str(warren_home() / "games" / "textworld"),
            "tells_admissible": self.wants_admissible,
        }

    def read(self, said: str) -> str:
        command = command_in(said)
        if command is None:
            raise NoAction("That is no command of this game.")
        return command


def _seed(split: str, number: int) -> int:
    """Of a game; TextWorld takes 32 bits."""
    digest = hashlib.blake2b(f"{split}\0{number}".encode(), digest_size=4)
    return int.from_bytes(digest.digest())


def _require_names(names: set[str]) -> None:
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise ConfigError(f"settings.{name}: expected a name such as level")
