"""The config of an evaluation, from a config, a policy of a run, or a base model and environments."""

from collections.abc import Callable, Coroutine, Mapping, Sequence

from warren.configs import ConfigLike, to_config
from warren.errors import ConfigurationError, NotFound
from warren.run import Run
from warren_schemas.config import (
    EnvironmentConfig,
    EvaluationConfig,
    ModelConfig,
    RecordedSource,
    ResumeFrom,
    TrainConfig,
)
from warren_schemas.http import CheckpointMetricsView


def config_of_evaluation(
    config: TrainConfig | None,
    *,
    model: str | ModelConfig | None = None,
    environments: Sequence[str] = (),
    evaluation: Mapping[str, object] | None = None,
) -> TrainConfig:
    """A config that evaluates and trains nothing; what is not None goes before what `config` says.

    Raises `ConfigurationError`.
    """
    if config is None:
        if model is None or not environments:
            raise ConfigurationError(
                "Nothing says what to evaluate",
                hint="Give a config, a policy of a run, or a base model and environments.",
            )
        base = model.base if isinstance(model, ModelConfig) else model
        config = to_config(
            {"model": {"base": base}, "environments": [{"name": name} for name in environments],
             "evaluation": {}, "limits": {"steps": 0}}
        )  # fmt: skip
    changes: dict[str, object] = {}
    if model is not None:
        changes["model"] = ModelConfig(base=model) if isinstance(model, str) else model
    if environments:
        changes["environments"] = tuple(EnvironmentConfig(name=name) for name in environments)
    asked = {key: value for key, value in (evaluation or {}).items() if value is not None}
    if asked:
        before = config.evaluation.model_dump() if config.evaluation else {}
        changes["evaluation"] = EvaluationConfig.model_validate({**before, **asked})
    if config.is_evaluation and not changes:
        return config
    return config.model_copy(update=changes).for_evaluation(config.resume_from)


async def evaluated(
    config: "ConfigLike | None",
    policy: str | None,
    model: str | None,
    find: Callable[[str], Coroutine[object, None, Run]],
) -> TrainConfig | None:
    """The config, or that of the checkpoint that `RUN@STEP` names. Raises `ConfigurationError`, `NotFound`."""
    base = None if config is None else to_config(config)
    if policy is None:
        return base
    if model is not None:
        raise ConfigurationError("Give either a policy or a base model, not both")
    name, at, which = policy.rpartition("@")
    run = await find(name if at else which)
    return await of_policy(run, which if at else "last", base or await _as_played(run, find))


async def _as_played(
    run: Run, find: Callable[[str], Coroutine[object, None, Run]]
) -> TrainConfig | None:
    """The run's config; of a replay that played nothing with what the run says of playing that recorded it.

    Where that run is gone, the replay's own is all there is.
    """
    own = run.view.config
    if own is None or own.evaluation is not None or not isinstance(own.source, RecordedSource):
        return own
    try:
        recorder = (await find(own.source.run)).view.config if own.source.run else None
    except NotFound:
        recorder = None
    if recorder is None:
        return own
    environments = tuple(_over(recorder.environments, one) for one in own.environments)
    return own.model_copy(update={"sampling": recorder.sampling, "environments": environments})


def _over(played: Sequence[EnvironmentConfig], own: EnvironmentConfig) -> EnvironmentConfig:
    """The environment of this name, with what `own` says besides."""
    base = next((one for one in played if one.name == own.name), own)
    return EnvironmentConfig.model_validate(
        {**base.model_dump(), **own.model_dump(exclude_defaults=True)}
    )


async def of_policy(run: Run, which: str, config: TrainConfig | None) -> TrainConfig:
    """The same of a checkpoint of a run: the model is the run's, everything else `config`'s if there is one.

    `which` is the name of a checkpoint, its step, `last` or `best`. Raises `ConfigurationError`.
    """
    own = run.view.config
    if own is None:
        raise ConfigurationError(f"{run.id} is of a newer gateway", hint="Update this client.")
    resume = ResumeFrom(run=run.id, checkpoint=await _checkpoint(run, which))
    chosen = config or own
    return chosen.model_copy(
        update={"model": own.model, "algorithm": own.algorithm, "resume_from": resume}
    ).for_evaluation(resume)


async def of_recorded(
    source: RecordedSource,
    config: "ConfigLike | None",
    model: str | None,
    environments: Sequence[str],
    find: Callable[[str], Coroutine[object, None, Run]],
    of_live: Mapping[str, object],
) -> TrainConfig:
    """The config of an evaluation of what is recorded, as `config` has it or the runs that recorded it.

    `of_live`: what is asked for and must be None. Raises `ConfigurationError`, `NotFound`.
    """
    if given := [key for key, value in of_live.items() if value is not None]:
        raise ConfigurationError(
            f"{' and '.join(given)}: no effect on an evaluation of what is recorded",
            hint="What was sampled, how and by whom, stands in the recording; leave it out.",
        )
    runs = [await find(name) for name in source.runs]
    if config is not None:
        chosen = to_config(config)
    elif runs:
        chosen = _of_recorders(runs)
    else:
        chosen = config_of_evaluation(None, model=model, environments=environments)
    changes: dict[str, object] = {}
    if model is not None:
        changes["model"] = ModelConfig(base=model)
    if environments:
        changes["environments"] = tuple(EnvironmentConfig(name=name) for name in environments)
    if runs:
        ids = [run.id for run in runs]
        source = source.model_copy(update={"run": ids[0], "also_runs": tuple(ids[1:])})
    return chosen.model_copy(update=changes).for_recorded_evaluation(source)


def _of_recorders(runs: Sequence[Run]) -> TrainConfig:
    """That of the first, with all environments of the others that it lacks."""
    configs = [run.view.config for run in runs if run.view.config is not None]
    if len(configs) < len(runs):
        unread = next(run.id for run in runs if run.view.config is None)
        raise ConfigurationError(f"{unread} is of a newer gateway", hint="Update this client.")
    found = list(configs[0].environments)
    for environment in (each for other in configs[1:] for each in other.environments):
        if environment.name not in {known.name for known in found}:
            found.append(environment)
    return configs[0].model_copy(update={"environments": tuple(found)})


async def best_checkpoint(run: Run) -> str:
    """Its name. Raises `ConfigurationError`."""
    return await _checkpoint(run, "best")


async def _checkpoint(run: Run, which: str) -> str:
    """Its name."""
    kept = (await run.checkpoint_metrics()).checkpoints
    if not kept:
        raise ConfigurationError(f"{run.id} has saved no checkpoint")
    if which in ("", "last"):
        return kept[-1].name
    if which == "best":
        return _best(run, kept).name
    name = f"step-{int(which):06d}" if which.isdecimal() else which
    if name not in (names := [view.name for view in kept]):
        raise ConfigurationError(
            f"{run.id} has no checkpoint {name}", hint=f"It has: {', '.join(names)}."
        )
    return name


def _best(run: Run, kept: Sequence[CheckpointMetricsView]) -> CheckpointMetricsView:
    """By evaluations of the very policy, or by rewards in training where none was evaluated; of equals the newest."""
    evaluated = [(reward, view) for view in kept if (reward := _evaluated(view)) is not None]
    trained = [(view.reward, view) for view in kept if view.reward is not None]
    ranked = evaluated or trained
    if not ranked:
        raise ConfigurationError(
            f"Nothing tells which checkpoint of {run.id} is best", hint="Name one, or say `last`."
        )
    return max(reversed(ranked), key=lambda pair: pair[0])[1]


def _evaluated(view: CheckpointMetricsView) -> float | None:
    found = (view.evaluation_after, view.evaluation_before)
    return next((e.reward_mean for e in found if e and e.version == view.version), None)
