"""Groups whose members are compared, by the parts of a run's config that do that: asked of the process of rubrics.

Invariant: a claim is settled with the confirm of its answer, or dropped where nobody waits for that any more; so a group comes
to another worker when this one dies.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from pydantic import JsonValue, TypeAdapter, ValidationError

from warren.environment import EpisodeTranscript
from warren_broker.inbox import Claim
from warren_broker.successors import Destination
from warren_broker.topology import results
from warren_env_worker.host.protocol import Answer, Observed, Refused
from warren_env_worker.rewards.scored import ScoredGroup
from warren_env_worker.rubrics import Rubrics, failed
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import Failed, FailureKind
from warren_schemas.group_scoring import (
    GroupMember,
    GroupRewards,
    GroupScored,
    MemberReward,
    ScoreGroup,
)
from warren_schemas.ids import WorkerId

Publish = Callable[[Destination, Item, Sequence[Claim[Item]]], None]
_GIVEN: TypeAdapter[list[tuple[float, dict[str, float]]]] = TypeAdapter(
    list[tuple[float, dict[str, float]]]
)


class Comparisons:
    def __init__(self, worker: WorkerId, rubrics: Rubrics, publish: Publish) -> None:
        """`publish` settles the claim when the answer is confirmed."""
        self._worker = worker
        self._rubrics = rubrics
        self._publish = publish

    def take(self, claim: Claim[ScoreGroup]) -> None:
        deadline_s = claim.item.envelope.deadline_s
        if deadline_s is not None and deadline_s < time.time():
            return claim.done()  # whoever wants it asks again
        spec = claim.item.spec
        parts: list[JsonValue] = [part.model_dump(mode="json") for part in spec.group_parts]
        members = [_transcript(member) for member in claim.item.members]
        group = ScoredGroup(members, claim.item.envelope.run or "")
        answered = partial(self._answered, claim)
        self._rubrics.ask(spec, {"group_parts": parts}, group.to_json(), answered)

    def _answered(self, claim: Claim[ScoreGroup], answer: Answer) -> None:
        asked = claim.item
        before = asked.envelope
        item = GroupScored(
            envelope=Envelope(run=before.run, episode=before.episode, attempt=before.attempt),
            spec=asked.spec,
            outcome=_outcome(asked.members, answer),
            worker=self._worker,
        )
        self._publish(results(asked.spec.policy.model), item, [claim])


def _outcome(members: Sequence[GroupMember], answer: Answer) -> GroupRewards | Failed:
    if isinstance(answer, Refused):
        return failed(answer)
    try:
        given = _given(answer)
        rewards = [
            MemberReward(member=asked.member, reward=reward, metrics=metrics)
            for asked, (reward, metrics) in zip(members, given, strict=True)
        ]
    except ValueError:  # user code lives in that process and may have sent this
        reason = "the process of rewards sent what is no answer"
        return Failed(kind=FailureKind.REWARD_FAILED, reason=reason)
    return GroupRewards(members=tuple(rewards))


def _given(answer: Observed) -> list[tuple[float, dict[str, float]]]:
    """Raises `ValueError`."""
    if not answer.messages:
        raise ValueError("it says nothing")
    try:
        return _GIVEN.validate_json(answer.messages[0][1])
    except ValidationError as error:
        raise ValueError("it says something else") from error


def _transcript(member: GroupMember) -> EpisodeTranscript:
    return EpisodeTranscript(member.messages, member.rewards, member.metrics, member.stop.value)
