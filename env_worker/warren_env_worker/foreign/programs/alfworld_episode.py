"""An episode of a game of ALFWorld, which is made here from its number; in the Python where the package is installed.

Invariant: what is said reaches the game as one of the commands that it offers in this state, or not at all: its texts are
made by evaluating expressions.
"""

import importlib
import os
import re
import sys
from typing import Any

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
expert: Any = importlib.import_module("alfworld_expert")
games: Any = importlib.import_module("alfworld_games")
textworld: Any = importlib.import_module("textworld")
PddlEnv: Any = importlib.import_module("textworld.envs.pddl").PddlEnv
Demangler: Any = importlib.import_module(
    "alfworld.agents.environment.alfred_tw_env"
).AlfredDemangler

MAX_COMMAND_CHARS = 100
GOAL = "UNKNOWN GOAL"
"""Stands in the package's grammar for what is to be done."""
NOTHING = "Nothing happens."
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_BANNER = re.compile(r"\A-= Welcome to [^\n]* =-\s*")


class Episode:
    def make(self, split: str, number: int, lists_commands: bool) -> None:
        self._game = games.game(split, number)
        self._lists_commands = lists_commands

    def begin(self) -> dict[str, Any]:
        asked = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env: Any = Demangler(PddlEnv(asked), shuffle=False)
        self._env.load(loaded(self._game))
        self._state: Any = self._env.reset()
        shown = _BANNER.sub("", self._state.feedback)
        return {"shown": self._with_commands(shown)}

    def step(self, words: str | None) -> dict[str, Any]:
        """None asks for the command that the expert would say next."""
        if words is None:
            return {"command": self._shown_by_the_expert()}
        command = command_of(words)
        is_valid = command in self._state["admissible_commands"]
        if is_valid:
            self._state, _, _ = self._env.step(command)
        shown = self._state.feedback if is_valid else NOTHING
        return {
            "shown": self._with_commands(shown),
            "is_valid": is_valid,
            "won": bool(self._state["won"]),
        }

    def _shown_by_the_expert(self) -> str:
        task = self._game.task
        names = {identity: info.name for identity, info in self._state["_entity_infos"].items()}
        aim = expert.Aim(
            f"{task.thing}Type".lower(),
            f"{task.place}Type".lower(),
            task.kind == games.LOOK,
            games.CHANGES.get(task.kind),
        )
        return expert.command(expert.Facts(self._state, names), aim)

    def _with_commands(self, shown: str) -> str:
        shown = shown.strip()
        if self._lists_commands and not self._state["won"]:
            shown += "\n\nCommands: " + ", ".join(self._state["admissible_commands"])
        return shown


def loaded(game: Any) -> dict[str, str]:
    """As the package reads it from a file."""
    return {
        "pddl_domain": DOMAIN,
        "grammar": GRAMMAR.replace(GOAL, game.goal),
        "pddl_problem": game.problem,
    }


def command_of(words: str) -> str:
    """What was said last: in `<action>`, else on the last line."""
    marked = _ACTION.findall(words)
    said = (marked or words.strip().splitlines() or [""])[-1]
    return " ".join(said[:MAX_COMMAND_CHARS].split()).strip("`'\"*> .").lower()


def text_of(name: str) -> str:
    with open(os.path.join(games.PACKAGE, "data", name)) as file:
        return file.read()


DOMAIN, GRAMMAR = text_of("alfred.pddl"), text_of("alfred.twl2")
