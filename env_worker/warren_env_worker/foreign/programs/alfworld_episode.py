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

GOAL = "UNKNOWN GOAL"
"""Stands in the package's grammar for what is to be done."""
NOTHING = "Nothing happens."
_BANNER = re.compile(r"\A-= Welcome to [^\n]* =-\s*")


class Episode:
    def make(self, split: str, number: int, tells_admissible: bool) -> None:
        self._game = games.game(split, number)
        self._tells_admissible = tells_admissible

    def begin(self) -> dict[str, Any]:
        asked = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env: Any = Demangler(PddlEnv(asked), shuffle=False)
        self._env.load(loaded(self._game))
        self._state: Any = self._env.reset()
        return self._told(_BANNER.sub("", self._state.feedback))

    def step(self, command: str | None) -> dict[str, Any]:
        """None asks for the command that the expert would say next."""
        if command is None:
            return {"command": self._shown_by_the_expert()}
        is_valid = command in self._state["admissible_commands"]
        if is_valid:
            self._state, _, _ = self._env.step(command)
        won = bool(self._state["won"])
        told = self._told(self._state.feedback if is_valid else NOTHING)
        return {**told, "is_valid": is_valid, "won": won, "reward": float(won), "done": won}

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

    def _told(self, shown: str) -> dict[str, Any]:
        if not self._tells_admissible or self._state["won"]:
            return {"shown": shown.strip()}
        return {"shown": shown.strip(), "admissible": self._state["admissible_commands"]}


def loaded(game: Any) -> dict[str, str]:
    """As the package reads it from a file."""
    return {
        "pddl_domain": DOMAIN,
        "grammar": GRAMMAR.replace(GOAL, game.goal),
        "pddl_problem": game.problem,
    }


def text_of(name: str) -> str:
    with open(os.path.join(games.PACKAGE, "data", name)) as file:
        return file.read()


DOMAIN, GRAMMAR = text_of("alfred.pddl"), text_of("alfred.twl2")
