"""Episodes out and their endings in.

Invariants: an admitted group is stored with the messages that start it; every member ends exactly
once (`groups.Group.expects`); a member that is silent past the deadline, or failed in a way that
trying again can help, is started again with the next attempt number until its attempts are used up.
"""

from collections import Counter
from typing import Any

from warren_broker.topology import CANCELLATIONS, interact
from warren_gateway.coordinator.rollouts import failure_limits, group_policy
from warren_gateway.coordinator.rollouts.groups import Group, timed_out
from warren_gateway.coordinator.rollouts.ownership import place, played_by
from warren_gateway.coordinator.rollouts.starting import episode_s, policy, start_item
from warren_gateway.coordinator.rollouts.trainable import as_trainable
from warren_gateway.coordinator.state import Memory
from warren_schemas.codec.wire import MAX_ITEMS
from warren_schemas.config import EnvironmentConfig
from warren_schemas.control import EpisodeCancelled
from warren_schemas.envelope import Envelope
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed
from warren_schemas.ids import new_group_id

MOST_AT_ONCE = 1024
"""A decision starts no more new episodes than this, and the group that reaches it: others wait while
they are made, 0.2 ms for each."""


def admit(
    memory: Memory, purpose: EpisodePurpose, n_groups: int, n_members: int | None = None
) -> int:
    """Start up to this many groups, of `n_members` or what the config says; how many it were.

    It stops when the run, or the environment whose turn it is, has as many episodes in flight as it
    may, or as are its share of the env workers' places: weights stay exact, and the endings of
    episodes make room. Of many, the next decision, which follows at once, starts the next.
    """
    in_flight = Counter[int]()
    for group in memory.groups.values():
        in_flight[group.environment] += group.n_missing
    for n_started in range(n_groups):
        if memory.n_started_now >= MOST_AT_ONCE:
            return n_started
        again = _task_again(memory, purpose)
        environment = again[1] if again else _next_environment(memory, purpose)
        size = n_members or group_size(memory, environment)
        if not _has_room(memory, in_flight, environment, size):
            return n_started
        _admit(memory, purpose, environment, size)
        in_flight[environment] += size
    return n_groups


def group_size(memory: Memory, environment: int) -> int:
    """Episodes of one task that are compared with each other."""
    own = memory.config.environments[environment].group_size
    return own or memory.config.algorithm.group_size


def _has_room(memory: Memory, in_flight: Counter[int], environment: int, n_members: int) -> bool:
    """A group always has room where nothing is in flight, or nothing would ever move."""
    own = memory.config.environments[environment]
    pairs = [
        (in_flight.total(), memory.config.limits.in_flight),
        (in_flight[environment], own.max_in_flight),
    ]
    return _has_place(memory, in_flight, own) and all(
        limit is None or n_before == 0 or n_before + n_members <= limit for n_before, limit in pairs
    )


def _has_place(memory: Memory, in_flight: Counter[int], of: EnvironmentConfig) -> bool:
    """Whether the run's share of this environment's places is not used up.

    A run may have several environments of one name, with settings of their own.
    """

    def where(environment: EnvironmentConfig) -> str:
        return place(environment.name, played_by(environment, memory.owner))

    environments, share = memory.config.environments, memory.shares.get(where(of))
    n = sum(n for i, n in in_flight.items() if where(environments[i]) == where(of))
    return share is None or n < max(share, 1)


def _admit(memory: Memory, purpose: EpisodePurpose, environment: int, n_members: int) -> None:
    group = Group(
        id=new_group_id(),
        number=memory.progress.next_group,
        purpose=purpose,
        environment=environment,
        task_index=_take_task(memory, purpose, environment),
        min_version=policy(memory, purpose).min_version,
        deadline_s=memory.now_s + episode_s(memory, environment),
        attempts=[1] * n_members,
    )
    memory.progress.next_group += 1
    memory.groups[group.id] = group
    memory.n_started_now += n_members
    memory.change.admitted.append(group)
    _start(memory, group, range(n_members))


def absorb(memory: Memory, item: EpisodeEnded, offset: int) -> Group | None:
    """Note the end of an episode; the group if that decides what becomes of it."""
    group = memory.groups.get(item.spec.group)
    if group is None or not group.expects(item):
        return None
    item = as_trainable(item)
    if isinstance(item.outcome, Failed):
        failure_limits.note_failures(memory, group.environment, item.outcome)
    again = group.take(item, offset, max_attempts=group_policy.max_attempts(memory, group))
    if again:
        _restart(memory, group, [item.spec.member])
    return group if group_policy.is_decided(memory, group) else None


def expire(memory: Memory) -> list[Group]:
    """Start members again that are past their deadline; the groups that this decides."""
    decided: list[Group] = []
    for group in memory.groups.values():
        if group.is_complete or group.deadline_s > memory.now_s:
            continue
        failure = timed_out(episode_s(memory, group.environment))
        n_attempts = group_policy.max_attempts(memory, group)
        failure_limits.note_failures(memory, group.environment, failure, group.n_missing)
        again = [
            member
            for member in group.missing
            if group.fail(member, failure, max_attempts=n_attempts)
        ]
        if again:
            _restart(memory, group, again)
        if group_policy.is_decided(memory, group):
            decided.append(group)
    return decided


def reprieve(memory: Memory, grace_s: float) -> None:
    """Nobody looked for a while: endings that came meanwhile are not late, only unread."""
    for group in memory.groups.values():
        group.deadline_s = max(group.deadline_s, memory.now_s + grace_s)


def close(memory: Memory, group: Group, fate: str) -> None:
    """The group needs nothing more; `fate` says what it was good for."""
    del memory.groups[group.id]
    _count(memory, group)
    if not memory.is_over:  # the end of a run is told of as a whole
        _cancel(memory, group)
    memory.change.closed.append((group, outcomes(memory, group, fate)))


def _cancel(memory: Memory, group: Group) -> None:
    """Nobody needs the members that are still in the air."""
    for member in group.missing:
        envelope = Envelope(
            run=memory.run, episode=group.episode(member), attempt=group.attempts[member]
        )
        memory.change.send(CANCELLATIONS, EpisodeCancelled(envelope=envelope))


def outcomes(memory: Memory, group: Group, fate: str) -> list[dict[str, Any]]:
    """What became of each member, and in which step."""
    step = _step(memory, fate)
    fated = {"fate": fate} if step is None else {"fate": fate, "step": step}
    return [fated | _outcome(group, member) for member in range(group.n_members)]


def _step(memory: Memory, fate: str) -> int | None:
    """The step that a group is part of when it is closed; None for a group that is part of none."""
    if fate == "trained":
        return memory.progress.n_consumed_steps + 1
    evaluation = memory.progress.evaluation
    return evaluation.step if fate == "evaluated" and evaluation is not None else None


def next_deadline_s(memory: Memory) -> float | None:
    open_groups = (g.deadline_s for g in memory.groups.values() if not g.is_complete)
    return min(open_groups, default=None)


def _restart(memory: Memory, group: Group, members: list[int]) -> None:
    group.deadline_s = memory.now_s + episode_s(memory, group.environment)
    memory.change.restarted[group.id] = group
    _start(memory, group, members)


def _start(memory: Memory, group: Group, members: "range | list[int]") -> None:
    environment = memory.config.environments[group.environment]
    items = [start_item(memory, group, environment, member) for member in members]
    owner = played_by(environment, memory.owner)
    queue = interact(environment.name, owner)
    memory.change.send(queue, *items)
    memory.change.message_sizes[queue] = memory.message_sizes.get(
        place(environment.name, owner), MAX_ITEMS
    )


def _cursor(purpose: EpisodePurpose, environment: int) -> str:
    return f"{purpose}/{environment}"


def _next_environment(memory: Memory, purpose: EpisodePurpose) -> int:
    """The environment that is furthest behind its share."""
    cursors = memory.progress.task_cursors
    environments = memory.config.environments

    def served(i: int) -> float:
        return (cursors.get(_cursor(purpose, i), 0) + 1) / environments[i].weight

    return min(range(len(environments)), key=served)


def _take_task(memory: Memory, purpose: EpisodePurpose, environment: int) -> int:
    if (again := _task_again(memory, purpose)) is not None:
        memory.progress.tasks_again.remove(again)
        return again[2]
    cursors, key = memory.progress.task_cursors, _cursor(purpose, environment)
    index = cursors.get(key, 0)
    cursors[key] = index + 1
    return index


def _task_again(memory: Memory, purpose: EpisodePurpose) -> tuple[str, int, int] | None:
    """A task that was in the air when the checkpoint was made that this run resumes from."""
    waiting = memory.progress.tasks_again
    return next((task for task in waiting if task[0] == purpose.value), None)


def rewind_tasks(memory: Memory, purpose: EpisodePurpose) -> None:
    """Begin again with the first task: every evaluation sees the same tasks."""
    for environment in range(len(memory.config.environments)):
        memory.progress.task_cursors.pop(_cursor(purpose, environment), None)


def _count(memory: Memory, group: Group) -> None:
    """Only once it is closed: the endings of open groups are read again after a takeover."""
    memory.progress.n_episodes += len(group.completed)
    memory.progress.n_failed_episodes += group.n_failed_attempts
    if group.purpose is not EpisodePurpose.DEMONSTRATE:
        memory.progress.n_tokens += sum(
            item.transcript.tokens.n_sampled for item, _ in group.completed
        )


def _outcome(group: Group, member: int) -> dict[str, Any]:
    outcome: dict[str, Any] = {}
    ended, failure = group.ended.get(member), group.failures.get(member)
    if ended is not None and isinstance(ended.outcome, Completed):
        outcome["reward"] = ended.outcome.reward
    elif failure is not None:
        outcome |= {"failure": failure.kind.value, "reason": failure.reason}
    return outcome
