"""Rows of data sets that are learned or held out: conversations which a sampler makes tokens of, and no env worker plays."""

from collections.abc import Iterable

from warren_broker.topology import generate
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
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodePurpose, EpisodeSpec, Generate, TaskRef
from warren_schemas.transcript import Transcript

NO_HOME = "coordinator"
"""Nobody waits for the answer: it goes to the run's stream."""


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
    """Have tokens made of the group's row."""
    items = [conversation_item(state, group, member) for member in members]
    state.change.send(generate(state.spec.base_model), *items)


def conversation_item(state: CoordinatorState, group: Group, member: int) -> Generate:
    """The message that makes tokens of the group's row."""
    sft = state.config.sft
    assert sft is not None and sft.dataset is not None
    task = _task(state.config, sft, group)
    rows = state.rows[sft.dataset][task.split]
    number = position(task, rows)
    found = _conversation(rows.row(number))
    return Generate(
        envelope=Envelope(
            run=state.run,
            episode=group.episode(member),
            attempt=group.attempts[member],
            deadline_s=group.deadline_s,
        ),
        spec=_spec(state, group, member, task, sft),
        transcript=Transcript(messages=found.messages, task_number=number),
        turn=0,
        home=NO_HOME,
        learned=found.learned(sft.roles),
        is_plain=found.is_plain,
    )


def _task(config: TrainConfig, sft: SftConfig, group: Group) -> TaskRef:
    learned = TaskRef(split=sft.split, index=group.task_index, order_seed=config.seed)
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
