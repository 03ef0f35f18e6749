"""Keys that can't have an effect beside others; each is refused with the reason.

A key is refused where it says something else than its default: a config that was written out whole, as
HTTP has it, says every default.
"""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from warren_schemas.config.algorithm import AlgorithmConfig, TurnCredit
from warren_schemas.config.environment import EnvironmentConfig
from warren_schemas.config.phases import EvaluationConfig
from warren_schemas.config.rewards import RewardReduction
from warren_schemas.config.sampling import Sampling
from warren_schemas.config.source import RecordingFilter

_OF_EPISODES = {"reward_reduction": RewardReduction.SUM, "min_reward": None, "max_reward": None}
"""What makes one reward of an episode's, with the defaults."""


def whole_rewards(
    algorithm: AlgorithmConfig, environments: Sequence[EnvironmentConfig]
) -> Iterator[str]:
    """Where the rewards of turns are trained on, nothing makes one of them."""
    if algorithm.critic is not None:
        judge = "algorithm.critic"
    elif isinstance(algorithm.credit, TurnCredit):
        judge = "algorithm.credit: turn"
    else:
        return
    for i, environment in enumerate(environments):
        for key, default in _OF_EPISODES.items():
            if getattr(environment, key) != default:
                yield (
                    f"environments.{i}.{key} is for the reward of a whole episode, and with {judge} the"
                    " rewards of its turns are trained on; leave it out, or have the environment give"
                    " other rewards"
                )


def without_steps(
    evaluation: EvaluationConfig | None,
    *,
    is_tuned: bool,
    is_live: bool,
    sections: Mapping[str, BaseModel],
) -> Iterator[str]:
    """A run of no steps of reinforcement learning, and the `sections` that say how it would be trained."""
    if evaluation is None and not is_tuned:
        yield (
            "limits.steps is 0, so nothing is trained, and with neither evaluation nor sft nothing would be"
            " done; give one of them, or steps"
        )
    if evaluation is not None and not (evaluation.before and evaluation.after):
        yield (
            "limits.steps is 0, so there is one evaluation, and no before and after; leave both out of"
            " evaluation"
        )
    if not is_live:
        yield (
            "limits.steps is 0, and a replay trains on what was recorded, or with evaluation and without sft evaluates"
            " it; leave source out"
        )
    for name, section in sections.items():
        for key, field in type(section).model_fields.items():
            if getattr(section, key) != field.get_default(call_default_factory=True):
                yield f"{name}.{key} has no effect on what is not trained; leave it out"


def fates_not_replayed(where: RecordingFilter) -> Iterator[str]:
    """What is trained on is what may be trained on."""
    if none := sorted({"evaluated", "failed"}.intersection(where.fates)):
        yield f"source.where.fates: episodes that are {' or '.join(none)} can be evaluated, and are not trained on"


def evaluations(evaluation: EvaluationConfig | None, n_steps: int) -> Iterator[str]:
    """An interval that is longer than the run."""
    every = evaluation and evaluation.every_steps
    if every and every > n_steps:
        yield (
            f"evaluation.every_steps is {every} and limits.steps {n_steps}, so no evaluation falls due"
            " in between; lower the one, raise the other, or leave every_steps out"
        )


def of_live_episodes(
    sampling: Sampling,
    algorithm: AlgorithmConfig,
    environments: Sequence[EnvironmentConfig],
    *,
    is_evaluated: bool,
) -> Iterator[str]:
    """Paths of what only live episodes have a use for, where it is not the default.

    A replay trains on what was sampled, however long ago. Its evaluation is live, with a temperature of
    its own.
    """
    if algorithm.max_staleness != AlgorithmConfig().max_staleness:
        yield "algorithm.max_staleness"
    unused = ("temperature",) if is_evaluated else tuple(Sampling.model_fields)
    for key in unused:
        if getattr(sampling, key) != getattr(Sampling(), key):
            yield f"sampling.{key}"
        for i, environment in enumerate(environments):
            if getattr(environment.sampling, key) is not None:
                yield f"environments.{i}.sampling.{key}"
