"""Rewards that compare the members of a group: asked for once all have ended, and told in the run's stream.

The parts of a run's config do that, and environments that say so with the end of each episode (`EpisodeEnded.uncompared`).
A member that ended well is set aside until no other is being played. Then an env worker is asked what they are worth as a
group, and each is written into the run's stream once more, with the reward that it has now. That ending counts, and whoever
reads the recording finds it there like any other; the one before is superseded, also where none comes after it.

Invariants
- Until the second ending was read the member is in flight: its group's deadline and attempts go on, and a group that can't be
  compared has failed with the reason, as a whole. Nobody is trained on without what the group gave.
- The endings of an answer are sent in the change that takes it in, and count once all of them were read: no group has rewards of
  two answers. Who takes the run over reads the first endings again and may ask again; the answer whose endings are complete
  first is the one that counts.
"""

from collections.abc import Sequence

from warren_broker.topology import compare
from warren_gateway.coordinator.rollouts import failed_members, failure_limits, starting
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group, timed_out
from warren_gateway.position import Position
from warren_gateway.runs.ownership import played_by
from warren_gateway.runs.streams import recording
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodePurpose,
    EpisodeSpec,
    Failed,
    FailureKind,
    StopReason,
)
from warren_schemas.group_scoring import GroupMember, GroupScored, MemberReward, ScoreGroup
from warren_schemas.ids import EpisodeId, MessageId
from warren_schemas.outcome import conclude

MAX_WORDS_BYTES = MAX_MESSAGE_BYTES - 1024 * 1024
"""Of all members; the rest of a message is for what travels with them."""


def takes(item: EpisodeEnded) -> bool:
    """Whether the episode is to be compared with the others of its group before it counts."""
    is_learned = item.spec.purpose is EpisodePurpose.DEMONSTRATE  # whatever it is worth
    is_wanted = item.uncompared is not None or bool(item.spec.group_parts)
    return is_wanted and not (is_learned or item.is_compared) and _has_ended_well(item)


def _has_ended_well(item: EpisodeEnded) -> bool:
    """One whose environment compares may get all of its reward from that."""
    if item.uncompared is None or isinstance(item.outcome, Completed):
        return isinstance(item.outcome, Completed)
    return item.outcome.kind is FailureKind.NO_REWARD


def set_aside(group: Group, item: EpisodeEnded, position: Position) -> None:
    """The member has ended, and waits for the others; until it was compared no ending of it counts."""
    if group.first_offset is None:
        group.first_offset = position.offset
    group.comparison.unscored[item.spec.member] = item


def count(state: CoordinatorState, group: Group, item: EpisodeEnded, position: Position) -> None:
    """Note an ending that holds what a comparison gave; all of them count with the last one."""
    assert item.compared_by is not None
    comparison = group.comparison
    endings = comparison.told.setdefault(item.compared_by, {})
    endings[item.spec.member] = item, position
    if group.playing or endings.keys() != comparison.unscored.keys():
        return
    for each, place in endings.values():
        state.rollouts.groups.note_ending(group, each, place, max_attempts=0)


def go_on(state: CoordinatorState, group: Group) -> None:
    """Ask for the rewards of a group of which nobody plays any more, unless that was done."""
    comparison = group.comparison
    is_under_way = group.playing or comparison.is_asked or comparison.is_telling
    if comparison.unscored and not (is_under_way or failed_members.is_decided(state.config, group)):
        _ask(state, group)


def is_late(state: CoordinatorState, group: Group) -> None:
    """No answer came in time."""
    if group.comparison.is_telling:  # its endings are on their way from the store
        group.comparison.is_telling = False
        return begin_time(state, group)
    episode_s = starting.episode_s(state.config, group.environment)
    _fail(state, group, timed_out(episode_s))


def absorb(state: CoordinatorState, item: GroupScored) -> Group | None:
    """An env worker has compared the members; the group if that decides what becomes of it."""
    group = state.rollouts.groups.get(item.spec.group)
    if group is None or group.playing or not group.comparison.is_awaited:
        return None
    if isinstance(item.outcome, Failed):
        if item.envelope.attempt != group.comparison.n_requests:
            return None
        _fail(state, group, item.outcome)
    elif {each.member for each in item.outcome.members} == group.comparison.unscored.keys():
        _tell(state, group, item, item.outcome.members)
    return group if failed_members.is_decided(state.config, group) else None


def _ask(state: CoordinatorState, group: Group) -> None:
    group.comparison.n_requests += 1
    group.comparison.is_asked = True
    items = [group.comparison.unscored[member] for member in sorted(group.comparison.unscored)]
    n_bytes = sum(m.size_bytes for item in items for m in item.transcript.messages)
    if n_bytes > MAX_WORDS_BYTES:
        reason = f"the messages of its members add up to {n_bytes} bytes; {MAX_WORDS_BYTES} can be compared"
        return _fail(state, group, _failed(reason))
    environment = state.config.environment_of(group.environment)
    if _is_mixed(group, items):
        reason = (
            f"only some of its env workers have a score_group() in {environment.name}, so its members can't be"
            " told from each other; host one version of it everywhere"
        )
        return _fail(state, group, _failed(reason))
    begin_time(state, group)
    question = ScoreGroup(
        envelope=Envelope(
            run=state.run,
            episode=as_episode(group),
            attempt=group.comparison.n_requests,
            deadline_s=group.deadline_s,
        ),
        spec=_spec(state, items[0].spec),
        members=tuple(_member(item) for item in items),
        by_environment=items[0].uncompared is not None,
    )
    if question.by_environment and environment.name not in state.rollouts.comparing:
        state.rollouts.comparing.append(environment.name)
    queue = compare(environment.name, played_by(environment, state.owner))
    state.change.send(queue, question)
    # so as many are under way as a worker wants, and any worker may take the next
    state.change.message_sizes[queue] = 1


def _is_mixed(group: Group, items: Sequence[EpisodeEnded]) -> bool:
    """Whether some members count without what the environment gives others."""
    return bool(group.ended) or len({item.uncompared is None for item in items}) > 1


def _spec(state: CoordinatorState, spec: EpisodeSpec) -> EpisodeSpec:
    """The answer goes to the results of this run's model, whichever played."""
    return spec.model_copy(update={"policy": spec.policy.model_copy(update={"model": state.model})})


def as_episode(group: Group) -> EpisodeId:
    """What stands for the whole group where an episode is named."""
    return EpisodeId(f"{group.id}.group")


def _member(item: EpisodeEnded) -> GroupMember:
    turns = item.transcript.turns
    return GroupMember(
        member=item.spec.member,
        messages=item.transcript.messages,
        rewards=tuple(turn.reward for turn in turns),
        metrics={name: value for turn in turns for name, value in turn.metrics.items()},
        stop=_stop(item),
    )


def _stop(item: EpisodeEnded) -> StopReason:
    if item.uncompared is not None:
        return item.uncompared
    assert isinstance(item.outcome, Completed)
    return item.outcome.stop


def begin_time(state: CoordinatorState, group: Group) -> None:
    """What is in flight of the group has its whole time from now on."""
    deadline_s = starting.deadline_s(state, group.environment)
    state.rollouts.groups.set_deadline(group, deadline_s)


def _fail(state: CoordinatorState, group: Group, failure: Failed) -> None:
    """Ask again, or give all up that were to be compared: what one is worth without the others nobody knows."""
    n_attempts = failed_members.max_attempts(state.config, group)
    failure_limits.note_failures(state, group.environment, failure, len(group.comparison.unscored))
    if failure.retryable and group.comparison.n_requests < n_attempts:
        return _ask(state, group)
    final = failure.model_copy(update={"retryable": False})
    for member in list(group.comparison.unscored):
        del group.comparison.unscored[member]
        state.rollouts.groups.note_failure(group, member, final, max_attempts=0)


def _failed(reason: str) -> Failed:
    return Failed(kind=FailureKind.REWARD_FAILED, reason=reason, retryable=False)


def _tell(
    state: CoordinatorState, group: Group, answer: GroupScored, rewards: tuple[MemberReward, ...]
) -> None:
    group.comparison.is_telling = True
    begin_time(state, group)
    by = answer.envelope.id
    endings = [compared(group.comparison.unscored[each.member], each, by) for each in rewards]
    state.change.send(recording(state.run, state.config), *endings)


def compared(item: EpisodeEnded, given: MemberReward, by: MessageId) -> EpisodeEnded:
    """The end of the episode with what the comparison gave, added to the reward of its last turn."""
    *before, last = item.transcript.turns
    reward = given.reward if last.reward is None else last.reward + given.reward
    last = last.model_copy(update={"reward": reward, "metrics": last.metrics | given.metrics})
    transcript = item.transcript.model_copy(update={"turns": (*before, last)})
    outcome = conclude(item.spec, transcript, _stop(item))
    if isinstance(outcome, Failed):
        outcome = outcome.model_copy(update={"retryable": False})
    changes = {"transcript": transcript, "outcome": outcome, "compared_by": by, "uncompared": None}
    return item.model_copy(update=changes)
