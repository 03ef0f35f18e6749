"""Rows of data sets that are learned or held out, and that no env worker plays: conversations, which a sampler makes tokens
of, and recorded episodes, which have their tokens and are over at once.
"""

from collections.abc import Iterable

from warren_broker.topology import generate, trajectories
from warren_gateway.coordinator.rollouts import tasks
from warren_gateway.coordinator.rollouts.starting import policy, seed_of
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rows import position
from warren_schemas.config import Sampling, SftConfig, TrainConfig
from warren_schemas.datasets.conversations import (
    Conversation,
    of_messages,
    of_prompt_and_completion,
)
from warren_schemas.datasets.sampled import is_recorded, sampled
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodeEnded, EpisodePurpose, EpisodeSpec, Generate, TaskRef
from warren_schemas.episode_times import NO_TIMES
from warren_schemas.transcript import Transcript

NO_HOME = "coordinator"
"""Nobody waits for the answer: it goes to the run's stream."""
_EPISODE_BYTES = 32 * 1024
"""A recorded episode of more counts as several of those that a decision starts: it is read within the decision, and sent with it."""


def are_learned(config: TrainConfig, purpose: EpisodePurpose) -> bool:
    """Whether episodes of this purpose are rows of a data set, and no env worker plays them."""
    is_on_rows = config.sft is not None and config.sft.dataset is not None
    return is_on_rows and purpose is EpisodePurpose.DEMONSTRATE


def next_environment(state: CoordinatorState, purpose: EpisodePurpose) -> int:
    """The one whose turn it is; rows that are learned have the number after the last one, those held out the next."""
    environments = state.config.environments
    if are_learned(state.config, purpose):
        return len(environments)
    return tasks.next_environment(state.rollouts, environments, purpose)


def held_out_number(config: TrainConfig) -> int:
    """Stands for the environment of rows that are evaluated and not learned."""
    return len(config.environments) + 1


def is_held_out(config: TrainConfig, group: Group) -> bool:
    """Whether the group is a row that is evaluated and not learned."""
    is_row = are_learned(config, group.purpose)
    return is_row and group.environment == held_out_number(config)


def start(state: CoordinatorState, group: Group, members: Iterable[int]) -> None:
    """Have tokens made of the group's row, if it has none."""
    for member in members:
        _start(state, group, member)


def _start(state: CoordinatorState, group: Group, member: int) -> None:
    sft = state.config.sft
    assert sft is not None and sft.dataset is not None
    task = _task(state.config, sft, group)
    rows = state.rows[sft.dataset][task.split]
    number = position(task, rows)
    row, spec = rows.row(number), _spec(state, group, member, task, sft)
    envelope = Envelope(
        run=state.run,
        episode=group.episode(member),
        attempt=group.attempts[member],
        deadline_s=group.deadline_s,
    )
    if is_recorded(row):
        state.change.send(trajectories(state.run), _ended(state, envelope, spec, row, number))
    else:
        asked = _asked(envelope, spec, row, number, sft)
        state.change.send(generate(state.spec.base_model), asked)


def _asked(
    envelope: Envelope, spec: EpisodeSpec, row: dict[str, object], number: int, sft: SftConfig
) -> Generate:
    """The message that makes tokens of a conversation."""
    found = _conversation(row)
    return Generate(
        envelope=envelope,
        spec=spec,
        transcript=Transcript(messages=found.messages, task_number=number),
        turn=0,
        home=NO_HOME,
        learned=found.learned(sft.roles),
        is_plain=found.is_plain,
    )


def _ended(
    state: CoordinatorState,
    envelope: Envelope,
    spec: EpisodeSpec,
    row: dict[str, object],
    number: int,
) -> EpisodeEnded:
    """What a recorded episode is learned as."""
    version, max_tokens = spec.policy.min_version, spec.sampling.max_total_tokens
    found = sampled(row, version=version, max_tokens=max_tokens)
    state.rollouts.n_started_now += found.size_bytes // _EPISODE_BYTES
    changes = {"task_number": number, "times": NO_TIMES}
    return EpisodeEnded(
        envelope=envelope,
        spec=spec,
        transcript=found.transcript.model_copy(update=changes),
        outcome=found.outcome,
        worker=NO_HOME,
        started_s=state.now_s,
        ended_s=state.now_s,
    )


def _task(config: TrainConfig, sft: SftConfig, group: Group) -> TaskRef:
    learned = TaskRef(split=sft.split, index=group.task.index, order_seed=config.seed)
    if sft.evaluation_split is None or not is_held_out(config, group):
        return learned
    evaluated = {"split": sft.evaluation_split, "num_samples": sft.evaluation_rows}
    return learned.model_copy(update=evaluated)


def _spec(
    state: CoordinatorState, group: Group, member: int, task: TaskRef, sft: SftConfig
) -> EpisodeSpec:
    return EpisodeSpec(
        group=group.id,
        member=member,
        purpose=group.purpose,
        environment=state.config.environment_of(group.environment).name,
        environment_number=group.environment,
        run_owner=state.owner,
        task=task,
        seed=seed_of(state.config.seed, group),
        policy=policy(state, group.purpose),
        sampling=Sampling(max_total_tokens=sft.max_tokens),
        max_turns=1,
    )


def _conversation(row: dict[str, object]) -> Conversation:
    """Rows were checked when they were uploaded."""
    return of_messages(row) if "messages" in row else of_prompt_and_completion(row)
