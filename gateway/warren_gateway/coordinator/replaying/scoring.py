"""Recorded groups whose episodes are scored anew: env workers play what was said through the environments of the replay's
config once more.

Each episode goes to any env worker as one that lost its home before its last answer: made again from its seed and its
actions, and over with that answer. What was sampled stays as it was recorded; the outcome and the rewards of turns
are those that come back. Meanwhile a group of the run's own stands for the recorded one among those in flight, so deadlines,
attempts, shares and pauses are those of live episodes.

Invariants
- Groups come out in the order in which they were put in, whichever is scored first.
- A member that can't be scored has failed, and says why; it never has the reward that was recorded.
- Nothing of this is stored: whoever takes the run over reads again what was not consumed, and has it scored again under ids of
  its own. So what comes late, or twice, belongs to no group that is in flight.
"""

from dataclasses import replace

from warren_gateway.coordinator.rollouts import episodes, failed_members, starting
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.group_parts import PlayedTask
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.episode import EpisodeEnded, EpisodePurpose, Failed, FailureKind
from warren_schemas.ids import new_group_id

OTHER_TURNS = Failed(
    kind=FailureKind.NOT_REPLAYABLE,
    reason="its env worker told of other turns than were recorded",
    retryable=False,
)


class Scoring:
    def __init__(self) -> None:
        self._scoring: list[Group] = []
        self.trouble: str | None = None
        """Why the last one that could not be scored could not."""
        self.n_episodes = 0
        """Of the groups that are held."""
        self.n_bytes = 0
        """What they take in memory, roughly."""

    @property
    def held(self) -> list[Group]:
        """The recorded groups, in the order of the recording."""
        return [_recorded(group) for group in self._scoring]

    def put(self, state: CoordinatorState, group: Group) -> None:
        """A group that could be trained on with the rewards that it has."""
        self._scoring.append(self._stand_in(state, group))
        self.n_episodes += group.n_members
        self.n_bytes += group.size_bytes

    def go_on(self, state: CoordinatorState) -> list[Group]:
        """Send what there is room for; the groups that are scored, up to the first that is not."""
        self._send(state)
        n_done = 0
        while n_done < len(self._scoring) and _is_done(state, self._scoring[n_done]):
            n_done += 1
        done, self._scoring = self._scoring[:n_done], self._scoring[n_done:]
        return [self._let_go(group) for group in done]

    def _let_go(self, group: Group) -> Group:
        recorded = _recorded(group)
        self.n_episodes -= recorded.n_members
        self.n_bytes -= recorded.size_bytes
        if reasons := [failure.reason for failure in group.own_failures.values()]:
            self.trouble = reasons[-1]
        return self._result(group)

    def _stand_in(self, state: CoordinatorState, group: Group) -> Group:
        """The group of the run's own."""
        return _scoring_group(state, group)

    def _result(self, group: Group) -> Group:
        """What comes out for a group of the run's own of which all have ended."""
        return _scored(group)

    def empty(self, state: CoordinatorState) -> list[Group]:
        """Nobody needs them; the recorded groups."""
        groups, self._scoring = self._scoring, []
        self.n_episodes = self.n_bytes = 0
        for group in groups:
            if group.id in state.rollouts.groups:
                episodes.forget(state, group)
        return [_recorded(group) for group in groups]

    def _send(self, state: CoordinatorState) -> None:
        for group in self._scoring:
            is_sent = group.id in state.rollouts.groups or _is_done(state, group)
            if not is_sent and not episodes.score(state, group):
                return


def _is_done(state: CoordinatorState, group: Group) -> bool:
    return failed_members.is_decided(state.config, group)


def _recorded(group: Group) -> Group:
    assert group.scores is not None
    return group.scores


def _scoring_group(state: CoordinatorState, recorded: Group) -> Group:
    """What failed, or is demonstrated, needs no reward."""
    group = Group(
        id=new_group_id(),
        number=0,
        purpose=recorded.purpose,
        environment=recorded.environment,
        task=PlayedTask(recorded.task.index, recorded.task.level),
        min_version=0,
        deadline_s=0.0,
        attempts=[1] * recorded.n_members,
        failures=dict(recorded.failures),
        scores=recorded,
    )
    for member, item in recorded.ended.items():
        if recorded.purpose is EpisodePurpose.DEMONSTRATE:
            group.ended[member] = item
        elif (failure := starting.why_not(state, recorded, item)) is not None:
            group.failures[member] = failure
    return group


def _scored(group: Group) -> Group:
    """The recorded group, each member with what came of scoring it."""
    recorded = _recorded(group)
    ended, failures = dict[int, EpisodeEnded](), dict(group.failures)
    for member, scored in group.ended.items():
        item = recorded.ended[member]
        if len(scored.transcript.turns) == len(item.transcript.turns):
            ended[member] = item if scored is item else _rewarded(item, scored)
        else:
            failures[member] = OTHER_TURNS
    return replace(recorded, ended=ended, failures=failures, _oldest_version=None)


def _rewarded(item: EpisodeEnded, scored: EpisodeEnded) -> EpisodeEnded:
    pairs = zip(item.transcript.turns, scored.transcript.turns, strict=True)
    turns = tuple(
        was.model_copy(update={"reward": now.reward, "metrics": now.metrics}) for was, now in pairs
    )
    changes = {
        "transcript": item.transcript.model_copy(update={"turns": turns}),
        "outcome": scored.outcome,
        "spec": item.spec.model_copy(update={"reward_rules": scored.spec.reward_rules}),
    }
    return item.model_copy(update=changes)
