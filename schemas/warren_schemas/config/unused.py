"""Keys that can't have an effect beside others; each is refused with the reason.

A key is refused where it says something else than its default: a config that was written out whole, as
HTTP has it, says every default.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from pydantic import BaseModel

from warren_schemas.config.algorithm import AlgorithmConfig, TurnCredit
from warren_schemas.config.environment import EnvironmentConfig
from warren_schemas.config.phases import EvaluationConfig
from warren_schemas.config.rewards.rules import RewardReduction
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
        for key, default in _defaults(type(section)).items():
            if getattr(section, key) != default:
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
    for i, environment in enumerate(environments):
        if environment.curriculum is not None and not _plays_levels(environment, is_evaluated):
            yield f"environments.{i}.curriculum"
    unused = ("temperature",) if is_evaluated else tuple(Sampling.model_fields)
    for key in unused:
        if getattr(sampling, key) != getattr(Sampling(), key):
            yield f"sampling.{key}"
        for i, environment in enumerate(environments):
            if getattr(environment.sampling, key) is not None:
                yield f"environments.{i}.sampling.{key}"


def _plays_levels(environment: EnvironmentConfig, is_evaluated: bool) -> bool:
    """An evaluation plays all levels, and of tasks those that it plays without a curriculum."""
    curriculum = environment.curriculum
    return is_evaluated and curriculum is not None and curriculum.over == "levels"


def curricula_not_trained(environments: Sequence[EnvironmentConfig]) -> Iterator[str]:
    """Where nothing is trained."""
    for i, environment in enumerate(environments):
        if environment.curriculum is not None and environment.curriculum.over == "tasks":
            yield f"environments.{i}.curriculum chooses among tasks to train on, and nothing is trained; leave it out"


# Of evaluations of what is recorded nothing is sampled or trained: `_ALWAYS` has an effect, `_SCORED` where env workers give the
# rewards, and all others are refused. Of replays that train, `_SCORED`, `_BEGUN` and what stands in `_idle_splits` may have none.
_ANY = "*"
"""Stands for the number of an environment."""
_ALWAYS = frozenset(
    {
        "name",
        "model.base",
        "environments.*.name",
        "source.run",
        "source.dataset",
        "source.split",
        "source.from_archive",
        "source.from_offset",
        "source.from_s",
        "source.also_runs",
        "source.where",
        "source.rewards",
        "retention",
        "limits.steps",
        "limits.stalled_after_s",
        "limits.wait_s",
    }
)
_SCORED = frozenset(
    {
        "environments.*.workers",
        "environments.*.config",
        "environments.*.secrets",
        "environments.*.rewards",
        "environments.*.reward_reduction",
        "environments.*.nonterminal_reward",
        "environments.*.min_reward",
        "environments.*.max_reward",
        "environments.*.episode_s",
        "environments.*.episode_attempts",
        "environments.*.max_in_flight",
        "limits.episode_s",
        "limits.in_flight",
        "limits.episode_attempts",
        "limits.failed_groups",
        "secrets",
    }
)
"""What env workers need, and by what they give rewards."""
_KEPT_REWARDS = (
    "no effect where recorded episodes keep the rewards that they have; leave out, or have them scored anew"
    " (source.rewards: scored)"
)
_BEGUN = frozenset(
    {
        "environments.*.dataset",
        "environments.*.split",
        "environments.*.evaluation_split",
        "environments.*.splits",
        "environments.*.weight",
        "environments.*.max_turns",
        "environments.*.recover",
        "environments.*.tool_format",
    }
)
"""What says which task is begun, and how; of what is recorded the recording says it."""


def unplayed(
    config: BaseModel,
    environments: Sequence[EnvironmentConfig],
    *,
    is_evaluated: bool,
    is_scored: bool,
) -> dict[str, list[str]]:
    """Of a replay that trains: paths of what env workers alone have a use for, by why they have none here."""
    if is_evaluated:
        begun, scored = [*_idle_splits(environments)], list[str]()
        where = "evaluation_split is evaluated"
    else:
        given = [*_given(config)]
        begun = [path for path, place in given if _is_used(place, _BEGUN)]
        scored = [path for path, place in given if _is_used(place, _SCORED)]
        where = "nothing is evaluated, for no task is begun"
    found = {
        f"no effect where recorded episodes are trained on and {where}; leave out": begun,
        _KEPT_REWARDS: [] if is_scored else scored,
        "no effect where recorded groups have the sizes that they have; leave out": (
            [] if is_scored else [*_uncounted_sizes(environments)]
        ),
    }
    return {why: paths for why, paths in found.items() if paths}


def _idle_splits(environments: Sequence[EnvironmentConfig]) -> Iterator[str]:
    """Of an environment that evaluates another split than that of training."""
    for i, environment in enumerate(environments):
        split, evaluated = environment.split, environment.evaluation_split
        if evaluated in (None, split):
            continue
        if split != EnvironmentConfig.model_fields["split"].default:
            yield f"environments.{i}.split"
        if split in environment.splits:
            yield f"environments.{i}.splits.{split}"


def _uncounted_sizes(environments: Sequence[EnvironmentConfig]) -> Iterator[str]:
    """A size has a use beside how many may fail, which it bounds."""
    for i, environment in enumerate(environments):
        if environment.group_size is not None and environment.max_failed_members is None:
            yield f"environments.{i}.group_size"


def without_effect(config: BaseModel, *, is_scored: bool) -> list[str]:
    """Paths of what says something else than its default, and has no effect."""
    used = _ALWAYS | _SCORED if is_scored else _ALWAYS
    return [path for path, place in _given(config) if not _is_used(place, used)]


def not_of_recorded(config: BaseModel, *, is_scored: bool) -> Iterator[str]:
    """Why it is no config of such an evaluation."""
    keys = without_effect(config, is_scored=is_scored)
    always = without_effect(config, is_scored=True)
    of_scoring = [key for key in keys if key not in always]
    if others := [key for key in keys if key not in of_scoring]:
        yield (
            f"{', '.join(others)}: no effect where recorded episodes are evaluated, for nothing is sampled or trained;"
            " leave out"
        )
    if of_scoring:
        yield f"{', '.join(of_scoring)}: {_KEPT_REWARDS}"


def _is_used(place: str, used: frozenset[str]) -> bool:
    parts = place.split(".")
    return any(".".join(parts[:n]) in used for n in range(1, len(parts) + 1))


def _given(section: BaseModel, path: str = "", place: str = "") -> Iterator[tuple[str, str]]:
    """Paths of what is not the default; `place` is the same for every environment."""
    for key, default in _defaults(type(section)).items():
        value = getattr(section, key)
        at, where = f"{path}{key}", f"{place}{key}"
        if value == default:
            continue
        if key == "environments" and not path:
            environments: tuple[BaseModel, ...] = value
            for number, each in enumerate(environments):
                yield from _given(each, f"{at}.{number}.", f"{where}.{_ANY}.")
        elif isinstance(value, BaseModel) and not _is_chosen(key, value, default):
            yield from _given(value, f"{at}.", f"{where}.")
        else:
            yield at, where


@cache
def _defaults(section: type[BaseModel]) -> Mapping[str, object]:
    """Of all its keys. A config is checked whenever it is read, and pydantic looks at a factory anew each time that it is
    asked for what it makes."""
    fields = section.model_fields.items()
    return {key: field.get_default(call_default_factory=True) for key, field in fields}


def _is_chosen(key: str, value: BaseModel, default: object) -> bool:
    """Where that it is there at all, or its kind, says something; a source and an evaluation are always there."""
    is_other = isinstance(default, BaseModel) and type(default) is not type(value)
    return key not in ("source", "evaluation") and (default is None or is_other)
