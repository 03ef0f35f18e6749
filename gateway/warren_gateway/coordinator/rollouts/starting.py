"""What starts an episode: its task, seed, policy and sampling, all from the run's config.

Invariant: attempts of one member differ in number, deadline and policy version, and in nothing else.
"""

import hashlib

from warren_gateway.coordinator.rollouts.ownership import played_by
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rows import with_row
from warren_schemas.config import EnvironmentConfig, Sampling, SplitConfig, TrainConfig
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodePurpose, EpisodeSpec, PolicyRef, StartEpisode, TaskRef

RECOVERIES = 3
"""How often an episode moves house; one that goes on losing its env workers may be what kills them."""


def start_item(
    state: CoordinatorState, group: Group, environment: EnvironmentConfig, member: int
) -> StartEpisode:
    """The message that starts this member's next attempt."""
    return StartEpisode(
        envelope=Envelope(
            run=state.run,
            episode=group.episode(member),
            attempt=group.attempts[member],
            deadline_s=group.deadline_s,
        ),
        spec=EpisodeSpec(
            group=group.id,
            member=member,
            purpose=group.purpose,
            environment=environment.name,
            environment_number=group.environment,
            run_owner=state.owner,
            owner=played_by(environment, state.owner),
            environment_config=environment.config,
            task=_task(state, group, environment),
            seed=seed_of(state.config.seed, group),
            policy=policy(state, group.purpose),
            sampling=_sampling(state, environment, group.purpose),
            max_turns=environment.max_turns,
            reward_rules=environment.reward_rules,
            tool_format=environment.tool_format,
            secrets=tuple(dict.fromkeys((*state.config.secrets, *environment.secrets))),
            n_recoveries_left=RECOVERIES if environment.recover == "replay" else 0,
        ),
    )


def _task(state: CoordinatorState, group: Group, environment: EnvironmentConfig) -> TaskRef:
    name = _split(environment, group.purpose)
    split = environment.splits.get(name, SplitConfig())
    task = TaskRef(
        split=name,
        index=group.task_index,
        order_seed=state.config.seed,
        shuffle=split.shuffle,
        num_samples=split.num_samples,
    )
    if environment.dataset is None:
        return task
    return with_row(task, state.rows[environment.dataset][name])


def episode_s(config: TrainConfig, environment: int) -> float:
    """How long an episode may take."""
    return config.environment_of(environment).episode_s or config.limits.episode_s


def policy(state: CoordinatorState, purpose: EpisodePurpose) -> PolicyRef:
    """Which version plays."""
    evaluation = state.rollouts.evaluation
    if purpose is EpisodePurpose.EVALUATE and evaluation is not None:
        version, url, pinned = evaluation.version, evaluation.policy_url, True
    else:
        version, url, pinned = state.learning.policy_version, state.learning.policy_url, False
    return PolicyRef(
        model=state.model,
        base_model=state.spec.base_model,
        min_version=version,
        url=url,
        pinned=pinned,
    )


def _sampling(
    state: CoordinatorState, environment: EnvironmentConfig, purpose: EpisodePurpose
) -> Sampling:
    sampling = environment.sampling.applied_to(state.config.sampling)
    if purpose is EpisodePurpose.EVALUATE and state.config.evaluation:
        temperature = state.config.evaluation.temperature
        return sampling.model_copy(update={"temperature": temperature})
    return sampling


def _split(environment: EnvironmentConfig, purpose: EpisodePurpose) -> str:
    if purpose is EpisodePurpose.EVALUATE and environment.evaluation_split:
        return environment.evaluation_split
    return environment.split


def seed_of(run_seed: int, group: Group) -> int:
    """The same for all members of a group, and for the same task of the same run config."""
    what = f"{run_seed}/{group.purpose}/{group.environment}/{group.task_index}"
    return int.from_bytes(hashlib.blake2b(what.encode(), digest_size=7).digest())


def evaluation_number(state: CoordinatorState, purpose: EpisodePurpose) -> int | None:
    """Of the evaluation that an episode is for; None in training."""
    evaluation = state.rollouts.evaluation
    return evaluation.number if evaluation and purpose is EpisodePurpose.EVALUATE else None
