"""Names of algorithms in the literature, and what to write for them in a config.

A paper's name often stands for a loss, an advantage and more at once; here each is a key of its own.
"""

import re
from collections.abc import Sequence

_MEANT = {
    "grpo": "GRPO here is `advantage: group_std` with `loss: ppo`: the defaults",
    "drgrpo": "Dr. GRPO here is `advantage: group_mean` with `loss: ppo`",
    "dapo": "DAPO here is `advantage: group_std` with `loss: ppo` and `normalize: tokens`: the defaults",
    "rloo": "RLOO here is `advantage: leave_one_out` with `loss: importance_sampling`",
    "reinforce": "REINFORCE here is `advantage: direct` with `loss: importance_sampling`",
    "reinforce++": "REINFORCE++ here is `advantage: batch_std` with `loss: ppo`",
    "a2c": "an actor with a critic is `critic: {}` with `loss: ppo`",
    "actorcritic": "an actor with a critic is `critic: {}` with `loss: ppo`",
    "gae": "GAE comes with a critic: `critic: {gae_lambda: 0.95}`",
    "pg": "the plain policy gradient is `loss: importance_sampling`",
    "policygradient": "the plain policy gradient is `loss: importance_sampling`",
    "vanilla": "the plain policy gradient is `loss: importance_sampling`",
    "tis": "truncated importance sampling is `tis_cap: 2.0`, with any loss",
    "sft": "supervised steps come before reinforcement learning: `sft: {steps: 100}`",
}
_PLACES = ("algorithm", "loss", "advantage")


def meant_by(path: Sequence[str], given: object) -> str | None:
    """What to write for an algorithm's name at this place; None where it is no such name."""
    if not isinstance(given, str) or not any(key in path for key in _PLACES):
        return None
    return _MEANT.get(re.sub(r"[^a-z0-9+]", "", given.lower()))
