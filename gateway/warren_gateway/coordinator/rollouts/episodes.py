"""Episodes out and their endings in.

Invariants: an admitted group is stored with the messages that start it; every member ends exactly once
(`groups.Group.expects`); a member that is silent past the deadline, or failed in a way that trying again can help, is started
again with the next attempt number until its attempts are used up. Attempts that nobody could play don't count among these.
Nothing is sent to an environment that nobody hosts: its queue is its workers', and goes some time after the
last of them. What was lost with it is started anew when one comes.
"""

from warren_broker.topology import CANCELLATIONS, IDLE_S, interact
from warren_gateway.coordinator.rollouts import (
    conversations,
    failed_members,
    failure_limits,
    group_rewards,
    starting,
    tasks,
)
from warren_gateway.coordinator.rollouts.admission import has_capacity
from warren_gateway.coordinator.rollouts.curricula.choice import Chosen, note_closed_group
from warren_gateway.coordinator.rollouts.outcomes import count, outcomes
from warren_gateway.coordinator.rollouts.starting import deadline_s, episode_s, policy
from warren_gateway.coordinator.rollouts.trainable import as_trainable
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.group_parts import PlayedTask
from warren_gateway.coordinator.state.groups import Group, timed_out
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.position import Position
from warren_gateway.runs.ownership import capacity_key, played_by
from warren_schemas.codec.wire import MAX_ITEMS
from warren_schemas.control import EpisodeCancelled
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodeEnded, EpisodePurpose, Failed
from warren_schemas.ids import new_group_id

MOST_AT_ONCE = 1024
"""A decision starts no more new episodes than this, and the group that reaches it: others wait while
they are made, 0.2 ms for each."""


def admit(
    state: CoordinatorState, purpose: EpisodePurpose, n_groups: int, n_members: int | None = None
) -> int:
    """Start up to this many groups, of `n_members` or what the config says; how many it were.

    It stops when the run, or the environment whose turn it is, has as many episodes in flight as it may, or as are its
    share of the env workers' places, or when nobody hosts it: weights stay exact, and the next are admitted when episodes
    have ended. Of many, the next decision, which follows at once, starts the next.
    """
    for n_started in range(n_groups):
        environment = conversations.next_environment(state, purpose)
        size = n_members or failed_members.group_size(state.config, environment)
        if not _may_start(state, environment, size):
            return n_started
        _admit(state, purpose, environment, tasks.choose(state, purpose, environment), size)
    return n_groups


def admit_held_out(state: CoordinatorState, environment: int, n_groups: int) -> None:
    """Start up to this many of the rows that are evaluated, under the same conditions."""
    purpose = EpisodePurpose.DEMONSTRATE
    for _ in range(n_groups):
        if not _may_start(state, environment, 1):
            return
        task = Chosen(tasks.take_new(state.rollouts, purpose, environment))
        _admit(state, purpose, environment, task, 1)


def score(state: CoordinatorState, group: Group) -> bool:
    """Have the members played through once more that are to be scored; whether there was room for them."""
    if not _may_start(state, group.environment, group.n_missing):
        return False
    group.deadline_s = deadline_s(state, group.environment)
    state.rollouts.groups[group.id] = group
    state.rollouts.n_started_now += group.n_missing
    _start(state, group, group.missing)
    return True


def _may_start(state: CoordinatorState, environment: int, n_members: int) -> bool:
    is_too_much = state.rollouts.n_started_now >= MOST_AT_ONCE
    is_hosted = environment not in state.rollouts.unhosted
    return not is_too_much and is_hosted and has_capacity(state, environment, n_members)


def _admit(
    state: CoordinatorState, purpose: EpisodePurpose, environment: int, task: Chosen, n_members: int
) -> None:
    group = Group(
        id=new_group_id(),
        number=state.rollouts.next_group,
        purpose=purpose,
        environment=environment,
        task=PlayedTask(task.task_index, task.level),
        min_version=policy(state, purpose).min_version,
        deadline_s=deadline_s(state, environment),
        attempts=[1] * n_members,
        evaluation=starting.evaluation_number(state, purpose),
    )
    state.rollouts.next_group += 1
    state.rollouts.groups[group.id] = group
    state.rollouts.n_started_now += n_members
    state.change.admitted.append(group)
    _start(state, group, range(n_members))


def absorb(state: CoordinatorState, item: EpisodeEnded, position: Position) -> Group | None:
    """Note the end of an episode; the group if that decides what becomes of it."""
    group = state.rollouts.groups.get(item.spec.group)
    if group is None or not group.expects(item):
        return None
    group.note_use(item)
    item = as_trainable(item)
    if item.is_compared:
        group_rewards.count(state, group, item, position)
        return _compared(state, group)
    if group_rewards.takes(item):
        group_rewards.set_aside(group, item, position)
        return _compared(state, group)
    if isinstance(item.outcome, Failed):
        if group.interruption.excuses(item.outcome):
            return None  # it starts anew when its time is up, or somebody is there again
        if group.scores is None or item.spec.member in group.scores.ended:
            failure_limits.note_failures(state, group.environment, item.outcome)
    again = state.rollouts.groups.note_ending(
        group, item, position, max_attempts=failed_members.max_attempts(state.config, group)
    )
    if again and isinstance(item.outcome, Failed):
        failure_limits.note_attempts(state.rollouts, item.outcome, 1)
    if again and group.environment in state.rollouts.unhosted:
        _postpone(state, group)
    elif again:
        _restart(state, group, [item.spec.member])
    return _compared(state, group)


def _compared(state: CoordinatorState, group: Group) -> Group | None:
    """The group, if it is decided once its members are compared that have to be."""
    group_rewards.go_on(state, group)
    return group if failed_members.is_decided(state.config, group) else None


def expire(state: CoordinatorState, *, is_sampled: bool) -> list[Group]:
    """Start members again that are past their deadline; the groups that this decides.

    That counts for nothing where nobody could play them for a part of the time; and while nobody can, they are
    postponed, at the latest when their queue is forgotten with what it held.
    """
    decided: list[Group] = []
    if not _may_expire(state.rollouts, state.now_s, is_sampled=is_sampled):
        return decided
    for group in state.rollouts.groups.values():
        is_unsampled = not is_sampled and group.scores is None and bool(group.playing)
        is_away = is_unsampled or group.environment in state.rollouts.unhosted
        is_due = group.deadline_s <= state.now_s
        if not is_away:
            group.interruption.away_since_s = None
        if not (is_away or is_due or group.interruption.is_postponed) or group.is_complete:
            continue
        group.interruption.was_interrupted |= is_away
        if is_away and (is_due or _is_away_for_long(state, group)):
            _postpone(state, group)
        elif not is_away and group.interruption.is_excused:
            _restart(state, group, group.excuse())
        elif is_due and _fails_by_deadline(state, group):
            decided.append(group)
    return decided


def _may_expire(rollouts: RolloutState, now_s: float, *, is_sampled: bool) -> bool:
    """Whether a group may be late, or could not be played at this or the last decision."""
    was_away, rollouts.is_away = rollouts.is_away, bool(rollouts.unhosted) or not is_sampled
    deadline_s = rollouts.groups.next_deadline_s()
    return was_away or rollouts.is_away or (deadline_s is not None and deadline_s <= now_s)


def _is_away_for_long(state: CoordinatorState, group: Group) -> bool:
    if group.interruption.away_since_s is None:
        group.interruption.away_since_s = state.now_s
    return state.now_s - group.interruption.away_since_s >= IDLE_S


def _postpone(state: CoordinatorState, group: Group) -> None:
    group.interruption.is_postponed = True
    group_rewards.begin_time(state, group)


def _fails_by_deadline(state: CoordinatorState, group: Group) -> bool:
    """Whether that decides the group; else its members have another attempt."""
    if not (playing := group.playing):
        group_rewards.is_late(state, group)
        return failed_members.is_decided(state.config, group)
    failure = timed_out(episode_s(state.config, group.environment))
    n_attempts = failed_members.max_attempts(state.config, group)
    failure_limits.note_failures(state, group.environment, failure, len(playing))
    note = state.rollouts.groups.note_failure
    again = [m for m in playing if note(group, m, failure, max_attempts=n_attempts)]
    if again:
        failure_limits.note_attempts(state.rollouts, failure, len(again))
        _restart(state, group, again)
    return _compared(state, group) is not None


def begin_decision(rollouts: RolloutState, unhosted: frozenset[int]) -> None:
    """No new episode was started by it yet, and of these environments none will be."""
    rollouts.n_started_now, rollouts.unhosted = 0, unhosted


def note_read(rollouts: RolloutState, offset: int) -> None:
    """This message of the run's stream was read."""
    rollouts.stream_offset = max(rollouts.stream_offset, offset + 1)


def begin_stage(rollouts: RolloutState, n_groups_done: int) -> None:
    """Groups that another run has consumed of this stage count as admitted."""
    rollouts.n_admitted = n_groups_done


def start_all_again(rollouts: RolloutState, now_s: float) -> None:
    """Nothing that was sent is left at the broker: every member is late."""
    for group in rollouts.groups.values():
        rollouts.groups.set_deadline(group, now_s)


def recall(state: CoordinatorState) -> None:
    """Nobody needs what is in flight now; its groups stay, and their members start again later."""
    for group in state.rollouts.groups.values():
        group.interruption.was_interrupted = True
        _cancel(state, group)


def start_recalled(rollouts: RolloutState) -> None:
    """The next decision starts again what was interrupted."""
    rollouts.is_away = True
    for group in rollouts.groups.values():
        group.interruption.is_postponed = not group.is_complete


def reprieve(rollouts: RolloutState, until_s: float) -> None:
    """Nobody looked for a while: endings that came meanwhile are not late, only unread."""
    for group in rollouts.groups.values():
        rollouts.groups.set_deadline(group, max(group.deadline_s, until_s))


def close(state: CoordinatorState, group: Group, fate: str) -> None:
    """The group needs nothing more; `fate` says what it was good for."""
    del state.rollouts.groups[group.id]
    note_closed_group(state, group)
    count(state, group)
    if not state.is_over:  # the end of a run is told of as a whole
        _cancel(state, group)
    state.change.closed.append((group, outcomes(state, group, fate)))


def forget(state: CoordinatorState, group: Group) -> None:
    """Nothing more is wanted of a group that scores a recorded one, which tells what became of it."""
    del state.rollouts.groups[group.id]
    for failure in group.own_failures.values():
        failure_limits.note_attempts(state.rollouts, failure, 1)
    if not state.is_over:
        _cancel(state, group)


def _cancel(state: CoordinatorState, group: Group) -> None:
    """Nobody needs the members that are still in flight."""
    for member in group.playing:
        envelope = Envelope(
            run=state.run, episode=group.episode(member), attempt=group.attempts[member]
        )
        state.change.send(CANCELLATIONS, EpisodeCancelled(envelope=envelope))


def next_deadline_s(rollouts: RolloutState) -> float | None:
    return rollouts.groups.next_deadline_s()


def _restart(state: CoordinatorState, group: Group, members: list[int]) -> None:
    group_rewards.begin_time(state, group)
    if group.scores is None:
        state.change.restarted[group.id] = group
    _start(state, group, members)
    group_rewards.go_on(state, group)


def _start(state: CoordinatorState, group: Group, members: "range | list[int]") -> None:
    environment = state.config.environment_of(group.environment)
    if conversations.are_learned(state.config, group.purpose):
        return conversations.start(state, group, members)
    members = starting.tell(state, group, members)
    item_for = starting.start_item if group.scores is None else starting.scoring_item
    items = [item_for(state, group, environment, member) for member in members]
    owner = played_by(environment, state.owner)
    queue = interact(environment.name, owner)
    state.change.send(queue, *items)
    state.change.message_sizes[queue] = state.observed.message_sizes.get(
        capacity_key(environment.name, owner), MAX_ITEMS
    )
