"""Which run a folder of curves is of, and the few of its settings that runs are compared by.

Invariant: a run's folder has the same name wherever it is written.
"""

import re

from warren_schemas.base import Frozen
from warren_schemas.config import TrainConfig
from warren_schemas.ids import RunId

_LONGEST_NAME = 80
_SHORT_ID = 8
"""Random digits at the end of an id: 32 bits keep runs of one name apart."""


class About(Frozen):
    run: RunId
    name: str
    created_s: float
    config: TrainConfig | None
    """None where it is of a newer gateway."""

    @property
    def folder(self) -> str:
        return folder_name(self.name, self.run)


def folder_name(name: str, run: str) -> str:
    """`NAME-ID`: the run's name, as far as it can name a folder, and the end of its id."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST_NAME]
    return f"{plain or 'run'}-{run[-_SHORT_ID:]}"


def hyperparameters(config: TrainConfig) -> dict[str, str | float]:
    """What the HParams tab compares runs by, under the names of the config's keys."""
    algorithm, optimizer, sampling = config.algorithm, config.optimizer, config.sampling
    return {
        "model.base": config.model.base,
        "model.update": config.model.update.kind,
        "model.update.rank": float(getattr(config.model.update, "rank", 0)),
        "environments": ", ".join(environment.name for environment in config.environments),
        "algorithm.loss": algorithm.loss.kind,
        "algorithm.advantage": "critic" if algorithm.critic else algorithm.advantage.value,
        "algorithm.group_size": float(algorithm.group_size),
        "algorithm.groups_per_step": float(algorithm.groups_per_step),
        "algorithm.max_staleness": float(algorithm.max_staleness),
        "algorithm.kl": 0.0 if algorithm.kl is None else algorithm.kl.coefficient,
        "algorithm.entropy_coefficient": algorithm.entropy_coefficient,
        "optimizer.learning_rate": optimizer.learning_rate,
        "optimizer.schedule": optimizer.schedule.value,
        "optimizer.clip_norm": optimizer.clip_norm,
        "sampling.temperature": sampling.temperature,
        "sampling.max_tokens": float(sampling.max_tokens),
        "limits.steps": float(config.limits.steps),
        "seed": float(config.seed),
    }
