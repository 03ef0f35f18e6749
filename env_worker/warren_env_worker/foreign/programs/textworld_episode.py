"""An episode of a game of TextWorld, which is made here from its seed; in the Python where it is installed.

Invariant: a game is made once on a machine and found whole or not at all, whoever dies meanwhile; as many are made
at once as there are processors.
"""

import argparse
import fcntl
import hashlib
import importlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

textworld: Any = importlib.import_module("textworld")
generator: Any = importlib.import_module("textworld.generator")
CHALLENGES: dict[str, Any] = importlib.import_module("textworld.challenges").CHALLENGES

MAX_GAMES = 2000
"""That are kept on a machine, of half a megabyte each."""
GAME, MAKING = "game.z8", "making-"
_BANNER = re.compile(r"\A(?:[^A-Za-z0-9]*\n)+")
_STATUS = re.compile(r"\n*>[^\n]*-= [^\n]* =-\s*-?\d+/\d+\s*\Z")
_OFFER = "Would you like to RESTART, RESTORE a saved game, QUIT or UNDO the last command?"
_GAP = re.compile(r"\n{3,}")


class Episode:
    def make(
        self,
        challenge: str,
        settings: dict[str, Any],
        seed: int,
        games: str,
        tells_admissible: bool,
    ) -> None:
        self._trouble: Exception | None = None
        self._game = ""
        try:
            self._game = made(Game(challenge, settings, seed), games)
        except (OSError, MemoryError) as error:  # the machine's, and not the config's
            self._trouble = error
        self._seed = seed
        self._asked = textworld.EnvInfos(
            feedback=True,
            won=True,
            score=True,
            max_score=True,
            admissible_commands=tells_admissible,
        )

    def begin(self) -> dict[str, Any]:
        if self._trouble is not None:
            raise self._trouble
        self._env: Any = textworld.start(self._game, self._asked)
        self._env.seed(self._seed)
        state = self._env.reset()
        self._score = 0
        self._most = max(state.max_score, 1)
        told = told_of(state)
        return {**told, "shown": _BANNER.sub("", told["shown"])}

    def step(self, command: str) -> dict[str, Any]:
        state, _, done = self._env.step(command)
        gained, self._score = state.score - self._score, state.score
        return {
            **told_of(state),
            "reward": gained / self._most,
            "done": bool(done),
            "won": bool(state.won),
        }


class Game:
    """What a game is made of. Raises `ValueError` for settings that its challenge has not."""

    def __init__(self, challenge: str, settings: dict[str, Any], seed: int) -> None:
        add_arguments, self._make = (add_custom, made_custom)
        if challenge != "custom":
            if challenge not in CHALLENGES:
                raise ValueError(f"challenge: there are custom, {', '.join(CHALLENGES)}")
            _, self._make, add_arguments = CHALLENGES[challenge]
        parser = Settings(prog="settings", add_help=False, allow_abbrev=False)
        add_arguments(parser)
        self._settings = vars(parser.parse_args(arguments_of(settings)))
        self._seed = seed
        told = [textworld.__version__, challenge, self._settings, seed]
        self.name = hashlib.blake2b(
            json.dumps(told, sort_keys=True).encode(), digest_size=16
        ).hexdigest()

    def compile(self, folder: str) -> None:
        options = textworld.GameOptions()
        options.seeds = self._seed
        options.path = os.path.join(folder, GAME)
        generator.compile_game(self._make(self._settings, options), options)


class Settings(argparse.ArgumentParser):
    """The arguments of `tw-make`."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def arguments_of(settings: dict[str, Any]) -> list[str]:
    given = {f"--{name.replace('_', '-')}": value for name, value in settings.items()}
    switches = [name for name, value in given.items() if value is True]
    valued = {name: value for name, value in given.items() if not isinstance(value, bool)}
    return [*switches, *(f"{name}={value}" for name, value in valued.items())]


def add_custom(parser: argparse.ArgumentParser) -> None:
    """As `tw-make custom` has them."""
    for name, usual in (("world-size", 5), ("nb-objects", 10), ("nb-parallel-quests", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--quest-length", type=int, default=5)
    parser.add_argument("--quest-breadth", type=int, default=1)
    parser.add_argument("--theme", choices=("house", "basic"), default="house")
    for name in (
        "include-adj", "blend-descriptions", "ambiguous-instructions", "only-last-action",
        "blend-instructions",
    ):  # fmt: skip
        parser.add_argument(f"--{name}", action="store_true")


def made_custom(settings: dict[str, Any], options: Any) -> Any:
    rest = dict(settings)
    options.nb_rooms = rest.pop("world_size")
    for name in ("nb_objects", "nb_parallel_quests", "quest_length", "quest_breadth"):
        setattr(options, name, rest.pop(name))
    for name, value in rest.items():
        setattr(options.grammar, name, value)
    return generator.make_game(options)


def made(game: Game, folder: str) -> str:
    """The file of the game, which is made where there is none."""
    there = os.path.join(folder, game.name)
    if not os.path.isdir(there):
        with turn_to_make(game, folder) as making:
            if not os.path.isdir(there):
                game.compile(making)
                forget_oldest(folder)
                os.rename(making, there)
    os.utime(there)
    return os.path.join(there, GAME)


@contextmanager
def turn_to_make(game: Game, folder: str) -> Generator[str]:
    """An empty folder, and the right to make this game and no other of the same number."""
    number = int(game.name, 16) % (os.cpu_count() or 1)
    making = os.path.join(folder, f"{MAKING}{number}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"lock-{number}"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # its end, or that of this process, lets go of it
        shutil.rmtree(making, ignore_errors=True)
        os.mkdir(making)
        tempfile.tempdir = making  # what a death leaves there is found again
        try:
            yield making
        finally:
            tempfile.tempdir = None


def forget_oldest(folder: str) -> None:
    """Of those that were not used for longest, all but the most that are kept."""
    games = [entry for entry in os.scandir(folder) if "-" not in entry.name]
    games.sort(key=lambda entry: entry.stat().st_mtime)
    for entry in games[: max(0, len(games) + 1 - MAX_GAMES)]:
        os.rename(entry.path, gone := os.path.join(folder, f"gone-{entry.name}"))
        shutil.rmtree(gone, ignore_errors=True)


def told_of(state: Any) -> dict[str, Any]:
    shown = _STATUS.sub("", state.feedback).replace(_OFFER, "")
    shown = _GAP.sub("\n\n", shown).strip() or "(nothing)"
    if state.admissible_commands is None:
        return {"shown": shown}
    return {"shown": shown, "admissible": state.admissible_commands}
