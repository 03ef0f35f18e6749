"""The plan of a run: its stages, in order."""

from dataclasses import dataclass
from typing import Literal

from warren_schemas.config import ClientSource, TrainConfig
from warren_schemas.events import Phase


@dataclass(frozen=True, slots=True)
class Stage:
    phase: Phase
    n_steps: int = 0
    when: Literal["before", "after"] | None = None
    """Which evaluation this is."""


def plan(config: TrainConfig) -> list[Stage]:
    stages = [Stage(Phase.OPENING)]
    if isinstance(config.source, ClientSource):
        return [*stages, Stage(Phase.TRAINING), Stage(Phase.CLOSING)]
    if config.sft:
        stages.append(Stage(Phase.SFT, n_steps=config.sft.steps))
    if config.limits.steps:
        if config.evaluation and config.evaluation.before:
            stages.append(Stage(Phase.EVALUATION, when="before"))
        stages.append(Stage(Phase.TRAINING, n_steps=config.limits.steps))
    if config.evaluation and config.evaluation.after:
        stages.append(Stage(Phase.EVALUATION, when="after"))
    return [*stages, Stage(Phase.CLOSING)]
