"""What a run may cost: upper bounds that follow from its config alone, up to the largest whole number."""

from warren_schemas.check import RunEstimate
from warren_schemas.config import LARGEST_INT, EnvironmentConfig, RecordedSource, TrainConfig


def estimate(config: TrainConfig, checkpoint_bytes: int | None) -> RunEstimate:
    algorithm, steps = config.algorithm, config.limits.steps
    plays = not isinstance(config.source, RecordedSource)
    sizes = [each.group_size or algorithm.group_size for each in config.environments]
    training = steps * algorithm.groups_per_step * max(sizes, default=0)
    evaluated = _evaluations(config) * (config.evaluation.episodes if config.evaluation else 0)
    longest = max((_tokens_of_one(config, each) for each in config.environments), default=0)
    return RunEstimate(
        training_episodes=_told(training),
        evaluation_episodes=_told(evaluated),
        demonstrations=_told(_demonstrations(config)),
        sampled_tokens=_told((training * plays + evaluated) * longest),
        kept_checkpoints=_told(_kept(config)),
        checkpoint_bytes=checkpoint_bytes,
        recording_bytes=config.retention.size_bytes,
    )


def _told(n: int) -> int:
    """A config may ask for more than a message can carry."""
    return min(n, LARGEST_INT)


def _demonstrations(config: TrainConfig) -> int:
    """Those that are held out among them."""
    if (sft := config.sft) is None:
        return 0
    n_evaluations = (
        -(-sft.steps // (sft.evaluate_every or sft.steps)) if sft.evaluation_split else 0
    )
    return sft.steps * sft.episodes_per_step + n_evaluations * sft.evaluation_rows


def _evaluations(config: TrainConfig) -> int:
    """None of these samples where it is what was recorded that is evaluated."""
    if (evaluation := config.evaluation) is None or config.evaluates_recorded:
        return 0
    if config.limits.steps == 0:
        return 1
    every = evaluation.every_steps
    during = (config.limits.steps - 1) // every if every else 0
    return evaluation.before + during + evaluation.after


def _tokens_of_one(config: TrainConfig, environment: EnvironmentConfig) -> int:
    sampling = environment.sampling.applied_to(config.sampling)
    by_turns = environment.max_turns * sampling.max_tokens
    return min(by_turns, sampling.max_total_tokens or by_turns)


def _kept(config: TrainConfig) -> int:
    checkpoint, steps = config.checkpoint, config.limits.steps
    if config.is_evaluation:
        return 0
    every = steps // checkpoint.keep_every if checkpoint.keep_every else 0
    return checkpoint.keep_last + checkpoint.keep_best + every
