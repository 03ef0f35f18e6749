"""Groups whose members are compared: first by their environment, where it does that, asked of its own processes; then by the
parts of a run's config, asked of the process of rubrics.

Invariants: a claim is settled with the confirm of its answer, or dropped where nobody waits for that any more; so a group comes
to another worker when this one dies. What can't be had of one of the two fails the group with the reason.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import JsonValue, TypeAdapter, ValidationError

from warren.environment import EpisodeTranscript
from warren_broker.inbox import Claim
from warren_broker.successors import Destination
from warren_broker.topology import results
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed, Refused
from warren_env_worker.host.request import GroupRequest
from warren_env_worker.rewards.scored import ScoredGroup
from warren_env_worker.rubrics import Rubrics, failed, own_part
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
_Given = Sequence[tuple[float, dict[str, float]]]
_GIVEN: TypeAdapter[list[tuple[float, dict[str, float]]]] = TypeAdapter(
    list[tuple[float, dict[str, float]]]
)


@dataclass(frozen=True, slots=True)
class _Comparison:
    claim: Claim[ScoreGroup]
    rewards: Sequence[MemberReward] = ()
    """What the environment gave, as it counts; empty where it compares nothing."""

    @property
    def asked(self) -> ScoreGroup:
        return self.claim.item

    @property
    def group(self) -> ScoredGroup:
        members, run = self.asked.members, self.asked.envelope.run or ""
        if not self.rewards:
            return ScoredGroup([_transcript(member) for member in members], run)
        pairs = zip(members, self.rewards, strict=True)
        return ScoredGroup([_rewarded(_transcript(each), given) for each, given in pairs], run)


class Comparisons:
    def __init__(
        self, worker: WorkerId, hosts: Mapping[str, Host], rubrics: Rubrics, publish: Publish
    ) -> None:
        """`hosts` are those of environments, by name; `publish` settles the claim when the answer is confirmed."""
        self._worker = worker
        self._hosts = hosts
        self._rubrics = rubrics
        self._publish = publish

    def take(self, claim: Claim[ScoreGroup]) -> None:
        deadline_s = claim.item.envelope.deadline_s
        if deadline_s is not None and deadline_s < time.time():
            return claim.done()  # whoever wants it asks again
        if claim.item.by_environment:
            self._ask_environment(_Comparison(claim))
        else:
            self._ask_parts(_Comparison(claim))

    def _ask_environment(self, comparison: _Comparison) -> None:
        spec = comparison.asked.spec
        host = self._hosts.get(spec.environment)
        if host is None:
            reason = f"this worker hosts {', '.join(self._hosts)}, not {spec.environment}"
            why = Failed(kind=FailureKind.UNKNOWN_ENVIRONMENT, reason=reason, retryable=False)
            return self._answer(comparison, why)
        slot = host.open_beside()

        def told(answer: Answer) -> None:
            host.close(slot)
            self._environment_answered(comparison, answer)

        host.submit_request(GroupRequest(slot, spec, None, told, group=comparison.group.to_json()))

    def _environment_answered(self, comparison: _Comparison, answer: Answer) -> None:
        asked = comparison.asked
        if isinstance(answer, Refused):
            reason = f"{asked.spec.environment} could not compare the group: {answer.reason}"
            why = failed(answer).model_copy(update={"reason": reason})
            return self._answer(comparison, why)
        try:
            own = _own(asked, _GIVEN.validate_python(answer.scores))
        except ValueError:  # user code lives in that process and may have sent this
            return self._answer(comparison, _no_answer(asked.spec.environment))
        if asked.spec.group_parts:
            return self._ask_parts(_Comparison(comparison.claim, own))
        self._answer(comparison, GroupRewards(members=tuple(own)))

    def _ask_parts(self, comparison: _Comparison) -> None:
        spec = comparison.asked.spec
        parts: list[JsonValue] = [part.model_dump(mode="json") for part in spec.group_parts]
        answered = partial(self._parts_answered, comparison)
        self._rubrics.ask(spec, {"group_parts": parts}, comparison.group.to_json(), answered)

    def _parts_answered(self, comparison: _Comparison, answer: Answer) -> None:
        self._answer(comparison, _outcome(comparison, answer))

    def _answer(self, comparison: _Comparison, outcome: GroupRewards | Failed) -> None:
        before, spec = comparison.asked.envelope, comparison.asked.spec
        item = GroupScored(
            envelope=Envelope(run=before.run, episode=before.episode, attempt=before.attempt),
            spec=spec,
            outcome=outcome,
            worker=self._worker,
        )
        self._publish(results(spec.policy.model), item, [comparison.claim])


def _own(asked: ScoreGroup, given: _Given) -> list[MemberReward]:
    """What the environment gave each member, as it counts among the parts of the run's config. Raises `ValueError`."""
    weight, name = own_part(asked.spec)
    return [
        MemberReward(
            member=member.member,
            reward=weight * reward,
            metrics=parts | _told(name, member, reward),
        )
        for member, (reward, parts) in zip(asked.members, given, strict=True)
    ]


def _told(name: str | None, member: GroupMember, reward: float) -> dict[str, float]:
    """The metric of the config's part for what the environment gives, with what it gave now."""
    return {} if name is None else {name: member.metrics.get(name, 0.0) + reward}


def _outcome(comparison: _Comparison, answer: Answer) -> GroupRewards | Failed:
    if isinstance(answer, Refused):
        return failed(answer)
    before = comparison.rewards or [
        MemberReward(member=each.member, reward=0.0) for each in comparison.asked.members
    ]
    try:
        rewards = [
            MemberReward(
                member=own.member, reward=own.reward + reward, metrics=own.metrics | metrics
            )
            for own, (reward, metrics) in zip(before, _given(answer), strict=True)
        ]
    except ValueError:  # user code lives in that process and may have sent this
        return _no_answer("rewards")
    return GroupRewards(members=tuple(rewards))


def _no_answer(of: str) -> Failed:
    reason = f"the process of {of} sent what is no answer"
    return Failed(kind=FailureKind.REWARD_FAILED, reason=reason)


def _given(answer: Observed) -> _Given:
    """Raises `ValueError`."""
    if not answer.messages:
        raise ValueError("it says nothing")
    try:
        return _GIVEN.validate_json(answer.messages[0][1])
    except ValidationError as error:
        raise ValueError("it says something else") from error


def _transcript(member: GroupMember) -> EpisodeTranscript:
    return EpisodeTranscript(member.messages, member.rewards, member.metrics, member.stop.value)


def _rewarded(transcript: EpisodeTranscript, given: MemberReward) -> EpisodeTranscript:
    """With what the environment gave, added to the last turn's reward."""
    *before, last = transcript.rewards or (None,)
    rewards = (*before, (last or 0.0) + given.reward)
    return EpisodeTranscript(
        transcript.messages, rewards, {**transcript.metrics, **given.metrics}, transcript.ending
    )
