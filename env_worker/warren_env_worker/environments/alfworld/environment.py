"""Household tasks of ALFWorld as text, in games that are made on the spot, each from its number.

    environments:
      - name: alfworld
        split: train
        evaluation_split: valid_unseen
        max_turns: 50

The package runs in a virtual environment of its own (`warren env install alfworld`), each episode in a process of its
own (`warren_env_worker.foreign`). Nothing is downloaded: rooms are the floor plans that the package comes with.

Invariant: split and number decide the game, so that the same number is the same task on every machine, whichever types
of tasks a run plays. The task's type is its category. Whoever does the task has a reward of 1, with the last command.

Metrics: `won`; `steps` that were taken; `invalid_commands`, at which nothing happens.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from pydantic import PositiveInt

from warren.environment import ConfigError, Context, Limits
from warren_env_worker.environments.text.environment import TextEnv
from warren_env_worker.environments.text.forms import written
from warren_env_worker.environments.text.settings import TextSettings

TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)
"""As the program has them: a game's type is that of its number, modulo six."""
SPLIT_SIZES = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
"""How many games the data of ALFWorld has."""
MAX_GAMES = 1_000_000
MAX_COMMAND_CHARS = 100
COMMANDS = """\
look
inventory
go to RECEPTACLE
open RECEPTACLE
close RECEPTACLE
take OBJECT from RECEPTACLE
move OBJECT to RECEPTACLE
examine OBJECT or RECEPTACLE
use LAMP
heat OBJECT with RECEPTACLE
clean OBJECT with RECEPTACLE
cool OBJECT with RECEPTACLE
slice OBJECT with OBJECT
Call things as you are shown them, with their numbers: take apple 1 from fridge 1."""


class AlfWorld(TextEnv[int]):
    name = "alfworld"
    version = "1"
    splits = ("train", "valid_seen", "valid_unseen")
    limits = Limits(reset_s=120.0, step_s=60.0)
    form = "marked"
    word = "command"
    blank = "COMMAND"
    counted = ("won", "steps", "invalid_commands")
    invalid_reward = 0.0
    tells_admissible = True

    def __init__(
        self,
        games: PositiveInt | None = None,
        task_types: Sequence[TaskType] = TASK_TYPES,
        list_commands: bool = False,
        system_prompt: str | None = None,
        text: TextSettings | None = None,
    ) -> None:
        """`games` is how many a split has, of all types: without it, as many as in ALFWorld's data. Of them, those of
        `task_types` are played. `list_commands` shows what would do something. `system_prompt` goes before the sentence
        that says how to act.
        """
        if games is not None and games > MAX_GAMES:
            raise ConfigError(f"games: expected from 1 to {MAX_GAMES:,}")
        self.games = games
        self.task_types = frozenset(task_types)
        super().__init__(text, system_prompt, lists=list_commands)

    def tasks(self, split: str) -> Sequence[int]:
        if split not in SPLIT_SIZES:
            raise ConfigError(f"split: there are {', '.join(SPLIT_SIZES)}")
        numbers = range(self.games or SPLIT_SIZES[split])
        of_types = [each for each in numbers if type_of(each) in self.task_types]
        if not of_types:
            raise ConfigError(f"task_types: none of the {len(numbers)} games is of these")
        return of_types

    def id_of(self, task: int) -> str:
        """By its number among the games of all types."""
        return f"{type_of(task)}/{task}"

    def how(self) -> str:
        acts = super().how()
        return (
            f"You do a household task in a room, by commands. {acts} The commands are:\n{COMMANDS}"
        )

    def made(self, task: int, ctx: Context) -> Mapping[str, object]:
        self.category = type_of(task)
        return {"split": ctx.split, "number": task, "tells_admissible": self.wants_admissible}

    def read(self, said: str) -> str:
        """As the game spells it; whether it is one of the game's commands, the game knows."""
        return " ".join(said[:MAX_COMMAND_CHARS].split()).strip("`'\"*> .").lower()

    async def demonstrate(self, rng: random.Random) -> str:
        """What leads to the end from here, said by who knows where everything lies."""
        answer = await self.playing.step(None)
        shown = written(answer["command"], self.reads)
        if shown is None:
            raise ConfigError(
                "text.pattern: the expert can't write what a pattern reads; choose a tag, say, or leave out sft"
            )
        return shown


def type_of(number: int) -> TaskType:
    return TASK_TYPES[number % len(TASK_TYPES)]
