"""Games of ALFWorld, looked at by its own engine: `audit.py PROGRAMS N_GAMES N_PLAYED`, in the Python of the package.

Prints a line of JSON for each of so many games of each split: its room and its problem as digests, and of the first ones
how many commands the expert needs, and whether they win. Knows nothing of Warren.
"""

import hashlib
import importlib
import json
import sys
from typing import Any

MAX_COMMANDS = 60


def looked_at(games: Any, split: str, number: int) -> dict[str, object]:
    game = games.game(split, number)
    places = sorted(line for line in game.problem.splitlines() if line.endswith("- receptacle"))
    return {
        "split": split,
        "number": number,
        "task_type": game.task.kind,
        "goal": game.goal,
        "room": _digest("\n".join(places)),
        "problem": _digest(game.problem),
    }


def won(program: Any, split: str, number: int) -> dict[str, object]:
    episode = program.Episode()
    episode.make(split, number, tells_admissible=False)
    episode.begin()
    commands: list[str] = []
    is_won = False
    while not is_won and len(commands) < MAX_COMMANDS:
        commands.append(episode.step(None)["command"])
        is_won = episode.step(commands[-1])["won"]
    return {"won": is_won, "commands": len(commands)}


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def main() -> None:
    programs, n_games, n_played = sys.argv[1:]  # the package puts other arguments in their place
    sys.path.append(programs)
    program: Any = importlib.import_module("alfworld_episode")
    for split in program.games.SPLITS:
        for number in range(int(n_games)):
            told = looked_at(program.games, split, number)
            if number < int(n_played):
                told |= won(program, split, number)
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
