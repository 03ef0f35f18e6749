"""Recorded episodes that are evaluated end once more, in the run's own recording: those that nobody plays are told by the gateway.

Invariants
- What is told of a member is what was recorded of it: its transcript, and its reward or its failure.
- It counts once it was read in the run's own stream, like any other ending: so it has a place there, and what is told twice
  counts once.
- What is to be scored anew is told by env workers alone; where none could, it fails, and never has the reward that was recorded.
"""

from collections.abc import Iterable

from warren_gateway.coordinator.rollouts.starting import unanswered
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.runs.streams import recording
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodeEnded, EpisodePurpose, Failed, FailureKind


def tell(state: CoordinatorState, group: Group, members: Iterable[int]) -> list[int]:
    """End the members of which nothing is to be played; those that are left."""
    if group.scores is None or group.purpose is not EpisodePurpose.EVALUATE:
        return list(members)
    members = list(members)
    told = {member: _ending(state, group, group.scores, member) for member in members}
    endings = [ending for ending in told.values() if ending is not None]
    if endings:
        state.change.send(recording(state.run, state.config), *endings)
    return [member for member in members if told[member] is None]


def why_not(state: CoordinatorState, recorded: Group, item: EpisodeEnded) -> Failed | None:
    """Why an episode can't be played through once more, as far as that is known before."""
    environment, kind = item.spec.environment, FailureKind.NOT_REPLAYABLE
    if environment != state.config.environment_of(recorded.environment).name:
        kind = FailureKind.UNKNOWN_ENVIRONMENT
        what = f"the replay names no environment {environment}"
    elif unanswered(item.transcript) is None:
        what = "its actions can't be told apart"
    else:
        return None
    return Failed(kind=kind, reason=f"it can't be scored anew: {what}", retryable=False)


def _ending(
    state: CoordinatorState, group: Group, recorded: Group, member: int
) -> EpisodeEnded | None:
    """None where an env worker is to say how it ends."""
    if (item := recorded.ended.get(member)) is None:
        return _told(state, group, recorded.lost[member], member)
    if not state.config.is_scored:
        return _told(state, group, item, member)
    failure = why_not(state, recorded, item)
    return failure and _told(state, group, item.model_copy(update={"outcome": failure}), member)


def _told(state: CoordinatorState, group: Group, item: EpisodeEnded, member: int) -> EpisodeEnded:
    """As the end of this member's attempt; nobody tries again what failed."""
    spec = {
        "group": group.id,
        "member": member,
        "purpose": group.purpose,
        "environment_number": group.environment,
    }
    outcome = item.outcome
    if isinstance(outcome, Failed):
        outcome = outcome.model_copy(update={"retryable": False})
    changes = {
        "envelope": Envelope(
            run=state.run, episode=group.episode(member), attempt=group.attempts[member]
        ),
        "spec": item.spec.model_copy(update=spec),
        "outcome": outcome,
    }
    return item.model_copy(update=changes)
