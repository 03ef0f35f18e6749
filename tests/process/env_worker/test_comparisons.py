"""Groups that are compared, by a real process: what functions are told and give, and all that may go wrong."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.support.claims import HeldClaim
from tests.support.fake_judge import FakeJudge, base_url, saying
from tests.support.forked_hosts import hosting
from tests.support.interacting import RUN, spec
from tests.support.patience import PATIENCE_S

from warren_broker.inbox import Claim
from warren_broker.successors import Destination
from warren_broker.topology import results
from warren_env_worker.comparisons import Comparisons
from warren_env_worker.host.host import Host
from warren_env_worker.rubrics import REFERENCE, Rubrics
from warren_schemas.config import (
    GroupFunctionReward,
    GroupJudgeReward,
    GroupReward,
    GroupServiceReward,
)
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import Failed, FailureKind, StopReason
from warren_schemas.group_scoring import (
    GroupMember,
    GroupRewards,
    GroupScored,
    MemberReward,
    ScoreGroup,
)
from warren_schemas.ids import EpisodeId, WorkerId
from warren_schemas.operator_policy import TRUSTING, OperatorPolicy
from warren_schemas.transcript import ChatMessage

HERE = "tests.unit.env_worker.rewards.functions"
RANK = GroupFunctionReward(function=f"{HERE}:rank", weight=2.0)
SHORTEST = GroupFunctionReward(function=f"{HERE}:shortest", name="short")


def member(number: int, words: str, reward: float | None) -> GroupMember:
    return GroupMember(
        member=number,
        messages=(
            ChatMessage(role="user", content="?"),
            ChatMessage(role="assistant", content=words),
        ),
        rewards=(reward,),
        metrics={"exact": 1.0},
        stop=StopReason.DONE,
    )


MEMBERS = (member(0, "long words", 0.5), member(2, "short", 1.0), member(3, "words", 0.0))


def asked(*parts: GroupReward, deadline_s: float | None = None) -> ScoreGroup:
    envelope = Envelope(run=RUN, episode=EpisodeId("group_1.group"), deadline_s=deadline_s)
    return ScoreGroup(envelope=envelope, spec=spec(group_parts=parts), members=MEMBERS)


class Worker:
    def __init__(self, comparisons: Comparisons, published: "asyncio.Queue[GroupScored]") -> None:
        self.comparisons = comparisons
        self.published = published

    async def answer(self, item: ScoreGroup) -> GroupScored:
        claim = HeldClaim(item)
        self.comparisons.take(claim)
        answer = await asyncio.wait_for(self.published.get(), PATIENCE_S)
        assert claim.fate == "done"
        return answer

    async def failure(self, part: GroupReward) -> Failed:
        outcome = (await self.answer(asked(part))).outcome
        assert isinstance(outcome, Failed)
        return outcome


@asynccontextmanager
async def comparing(
    policy: OperatorPolicy = TRUSTING, hosts: Mapping[str, Host] | None = None
) -> AsyncGenerator[Worker]:
    published: asyncio.Queue[GroupScored] = asyncio.Queue()

    def publish(address: Destination, item: Item, claims: Sequence[Claim[Item]]) -> None:
        assert isinstance(item, GroupScored)
        assert address == results(item.spec.policy.model)
        published.put_nowait(item)
        for claim in claims:
            claim.done()

    async with hosting(REFERENCE, policy=policy) as host:
        yield Worker(Comparisons(WorkerId("env_1"), hosts or {}, Rubrics(host), publish), published)


async def test_each_member_gets_the_weighted_sum_and_what_each_part_gave() -> None:
    async with comparing() as worker:
        answer = await worker.answer(asked(RANK, SHORTEST))
    assert (answer.envelope.run, answer.envelope.episode) == (RUN, "group_1.group")
    assert answer.worker == "env_1"
    assert answer.outcome == GroupRewards(
        members=(
            MemberReward(
                member=0, reward=4 / 3, metrics={"reward/rank": 2 / 3, "reward/short": 0.0}
            ),
            MemberReward(member=2, reward=3.0, metrics={"reward/rank": 1.0, "reward/short": 1.0}),
            MemberReward(
                member=3, reward=1 + 2 / 3, metrics={"reward/rank": 1 / 3, "reward/short": 1.0}
            ),
        )
    )


@pytest.mark.parametrize(
    ("name", "kind", "reason", "is_retryable"),
    [
        ("too_few", FailureKind.REWARD_FAILED, "too_few did not give a list of 3 numbers", True),
        ("no_group", FailureKind.REWARD_FAILED, "no_group did not give a list of 3 numbers", True),
        ("dies_with_group", FailureKind.REWARD_FAILED, "in a part of the reward, .* 7", True),
        (
            "brevity",
            FailureKind.ENVIRONMENT_CONFIG,
            "asks for response; a reward function may",
            False,
        ),
        ("nothing", FailureKind.ENVIRONMENT_CONFIG, "there is no reward function", False),
    ],
)
async def test_what_fails_is_told_and_the_next_group_is_compared(
    name: str, kind: FailureKind, reason: str, is_retryable: bool
) -> None:
    async with comparing() as worker:
        failed = await worker.failure(GroupFunctionReward(function=f"{HERE}:{name}"))
        assert (failed.kind, failed.retryable) == (kind, is_retryable)
        assert re.search(reason, failed.reason)
        assert isinstance((await worker.answer(asked(RANK))).outcome, GroupRewards)


async def test_a_function_that_the_operator_does_not_allow_is_not_called() -> None:
    async with comparing(OperatorPolicy()) as worker:
        failed = await worker.failure(RANK)
    assert failed.kind is FailureKind.ENVIRONMENT_CONFIG
    assert "is no reward function that this env worker's operator allows" in failed.reason


async def test_what_nobody_waits_for_any_more_is_dropped() -> None:
    async with comparing() as worker:
        claim = HeldClaim(asked(RANK, deadline_s=1.0))
        worker.comparisons.take(claim)
        assert claim.fate == "done"
        assert worker.published.empty()


@pytest.mark.parametrize("kind", ["group_service", "group_judge"])
async def test_an_endpoint_that_the_operator_does_not_allow_is_not_asked(kind: str) -> None:
    fake = FakeJudge()
    async with fake.served() as server, comparing(OperatorPolicy()) as worker:
        url = base_url(server)
        parts: dict[str, GroupReward] = {
            "group_service": GroupServiceReward(url=url),
            "group_judge": GroupJudgeReward(url=url, model="m", prompt="{responses}"),
        }
        failed = await worker.failure(parts[kind])
    assert (failed.kind, failed.retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
    assert fake.bodies == []


async def test_a_judge_compares_a_group_until_the_budget_of_the_run_is_spent() -> None:
    fake = FakeJudge(otherwise=saying("Ranking: 2 > 1 > 3"))
    async with fake.served() as server, comparing() as worker:
        part = GroupJudgeReward(
            url=base_url(server), model="m", prompt="{responses}", cache=0, max_requests=1
        )
        given = (await worker.answer(asked(part))).outcome
        spent = await worker.failure(part)
    assert isinstance(given, GroupRewards)
    assert [(each.member, each.reward) for each in given.members] == [(0, 0.5), (2, 1.0), (3, 0.0)]
    assert (spent.kind, spent.retryable) == (FailureKind.REWARD_FAILED, False)
    assert "has spent its max_requests of 1" in spent.reason
    assert len(fake.bodies) == 1
