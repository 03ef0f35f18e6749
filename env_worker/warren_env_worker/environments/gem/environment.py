"""Games of GEM (`game:…`), and puzzles of Reasoning Gym as GEM asks them (`rg:…`).

    environments:
      - name: gem
        config: {env: "game:GuessTheNumber-v0-easy"}

The package runs in a virtual environment of its own (`warren env install gem`), each episode in a process of its own
(`warren_env_worker.foreign`), which the task's seed seeds. GEM's words are the prompt, with what its wrappers would put
around them; GEM itself finds the action in what the policy says.

Invariant: what a policy says is never run. GEM's environments of data sets, some of which run it, are refused, and so
are the puzzles whose scorers do (`reasoning_gym_answers`).
"""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from warren.environment import ConfigError, Context, Limits
from warren_env_worker.environments.reasoning_gym import UNFIT
from warren_env_worker.environments.reasoning_gym_answers import runs_answers
from warren_env_worker.environments.text.environment import TextEnv
from warren_env_worker.environments.text.settings import TextSettings

_ID = re.compile(r"([a-z]{1,16}):([A-Za-z0-9][\w.-]{0,127})", re.ASCII)


class Gem(TextEnv):
    name = "gem"
    version = "1"
    limits = Limits(reset_s=120.0, step_s=60.0)
    given = r"\boxed{{{action}}}"

    def __init__(
        self,
        env: str,
        arguments: Mapping[str, JsonValue] | None = None,
        system_prompt: str | None = None,
        text: TextSettings | None = None,
    ) -> None:
        """The environment's id, and what `gem.make` gets besides."""
        _require_playable(env)
        self.env = env
        self.arguments = dict(arguments or {})
        self.category = env
        super().__init__(text, system_prompt)

    def made(self, task: None, ctx: Context) -> Mapping[str, object]:
        return {"env": self.env, "arguments": self.arguments, "seed": ctx.seed}


def _require_playable(env: str) -> None:
    found = _ID.fullmatch(env)
    if found is None:
        raise ConfigError("env: expected the id of an environment, such as game:Sudoku-v0-easy")
    family, name = found.groups()
    if family not in ("game", "rg"):
        raise ConfigError(
            f"env: {env} is none of GEM's games (game:…) or puzzles (rg:…), which alone are played;"
            " the environment math reads data sets"
        )
    if family == "rg" and (runs_answers(name) or name in UNFIT):
        reason = UNFIT.get(name, "its scorer runs what the policy says, as code")
        raise ConfigError(f"env: {env} can't be trained on: {reason}")
