"""An environment that tells all that its process knows."""

import json
import os

from warren.environment import Context, Env, StepResult


class Nosy(Env):
    name = "nosy"

    def reset(self, task: None, ctx: Context) -> str:
        self.secrets = ctx.secrets
        return json.dumps({**os.environ, **{f"secret {name}": "" for name in ctx.secrets}})

    def step(self, action: str) -> StepResult:
        value = self.secrets["JUDGE"]
        print("=" * 65_500 + value, flush=True)  # 64 KiB of an episode are kept
        raise ValueError("x" * 250 + value)
