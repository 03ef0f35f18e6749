"""An episode of a game of TextArena for one player; in the Python where it is installed."""

import importlib
from typing import Any

textarena: Any = importlib.import_module("textarena")
MAX_SEED = 2**31


class Episode:
    def make(self, game: str, arguments: dict[str, Any], seed: int) -> None:
        self._game: Any = textarena.make(game, **arguments)
        self._seed = seed % MAX_SEED
        self._seen = ""

    def begin(self) -> dict[str, Any]:
        self._game.reset(num_players=1, seed=self._seed)
        return {"shown": self._new_words("")}

    def step(self, words: str) -> dict[str, Any]:
        done, _ = self._game.step(words)
        if not done:
            return {"shown": self._new_words(words), "reward": None, "done": False}
        rewards, info = self._game.close()
        reason = info.get(0, {}).get("reason") or ""
        return {"shown": str(reason), "reward": float(rewards[0]), "done": True}

    def _new_words(self, said: str) -> str:
        """The game repeats all that was said, the player's words too."""
        _, observation = self._game.get_observation()
        text = str(observation)
        new = text.removeprefix(self._seen)
        self._seen = text
        echo = f"[Player] {said}"
        return (new.replace(echo, "", 1) if said else new).strip() or "(nothing)"
