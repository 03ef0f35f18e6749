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

from warren.environment import ConfigError, Context, Env, Limits, StepResult
from warren.settings import warren_home
from warren_env_worker.foreign.episode import ForeignEpisode
from warren_env_worker.foreign.package import package

MAX_GAMES = 1_000_000
Setting = str | int | bool
_NAME = re.compile(r"[a-z][\w-]{0,63}", re.ASCII)
_HOW = "You play a text adventure. Say one command in each turn, as <action>COMMAND</action>."


class TextWorld(Env[int]):
    name = "textworld"
    version = "1"
    limits = Limits(reset_s=600.0, step_s=60.0)

    def __init__(
        self,
        challenge: str,
        settings: Mapping[str, Setting] | None = None,
        split_settings: Mapping[str, Mapping[str, Setting]] | None = None,
        games: int = 100,
        list_commands: bool = False,
        system_prompt: str | None = None,
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
        self.list_commands = list_commands
        self.preface = system_prompt
        self.category = challenge
        self.episode: ForeignEpisode | None = None
        self.counts = {"won": 0.0, "steps": 0.0, "invalid_commands": 0.0}

    def tasks(self, split: str) -> Sequence[int]:
        return range(self.games)

    def system_prompt(self) -> str:
        return f"{self.preface}\n\n{_HOW}" if self.preface else _HOW

    async def reset(self, task: int, ctx: Context) -> str:
        made: dict[str, object] = {
            "challenge": self.challenge,
            "settings": {**self.settings, **self.of_split.get(ctx.split, {})},
            "seed": _seed(ctx.split, task),
            "games": str(warren_home() / "games" / "textworld"),
            "lists_commands": self.list_commands,
        }
        self.episode = ForeignEpisode(package("textworld", "textworld_episode.py"), made)
        return (await self.episode.begin())["shown"]

    async def step(self, action: str) -> StepResult:
        assert self.episode is not None  # `reset` comes first
        answer = await self.episode.step(action)
        if not answer["is_valid"]:
            self.counts["invalid_commands"] += 1
            return StepResult(answer["shown"], metrics=dict(self.counts))
        self.counts["steps"] += 1
        self.counts["won"] = float(answer["won"])
        return StepResult(
            answer["shown"], answer["reward"], answer["done"], metrics=dict(self.counts)
        )

    async def close(self) -> None:
        if self.episode is not None:
            self.episode.close()


def _seed(split: str, number: int) -> int:
    """Of a game; TextWorld takes 32 bits."""
    digest = hashlib.blake2b(f"{split}\0{number}".encode(), digest_size=4)
    return int.from_bytes(digest.digest())


def _require_names(names: set[str]) -> None:
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise ConfigError(f"settings.{name}: expected a name such as level")
