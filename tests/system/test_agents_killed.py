"""A run whose episodes are agents of every dialect survives the death of every part in the middle, on RabbitMQ.

An agent's call waits while a sampler or the gateway is away, and goes on at the same address. Agents whose env worker
dies fail with `not_replayable` and are tried again, as may those whose messages a broker that died moves to another one.
What was answered to agents that came to their end, or died with their env worker, is in the record, and nothing is
trained twice.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from tests.support.conversations import SURFACES, words_of
from tests.support.deployment import Site, connected
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit, running_rabbit
from tests.support.telling import Ledger, Told, name_in

import warren
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FailureKind
from warren_schemas.events import StepCompleted
from warren_schemas.ids import GroupId

pytestmark = [pytest.mark.storm, pytest.mark.thorough, pytest.mark.server, several_waits]

EXAMPLE = Path(__file__).parents[2] / "examples" / "guess.yaml"
AGENT = ("env-worker", "--only", "--env", "tests.support.telling:Telling")
ENV_WORKERS = ("env-1", "env-2")
N_STEPS = 30
VICTIMS = ("env worker", "gpu", "gateway", "broker")
Member = tuple[GroupId, int]


def config(ledger: Ledger) -> dict[str, object]:
    found = yaml.safe_load(EXAMPLE.read_text())
    found["environments"] = [
        {"name": "telling", "config": {"dialect": dialect, "socket": str(ledger.socket)}}
        for dialect in SURFACES
    ]
    found["limits"] = {"steps": N_STEPS, "episode_s": 300}
    del found["sft"], found["evaluation"]
    return found


def are_all_dialects(held: Sequence[Told]) -> bool:
    return {each.dialect for each in held} == set(SURFACES)


class Breaking:
    """Kills a part while agents of all dialects are held between two calls, and starts it again while they ask on."""

    def __init__(self, site: Site, rabbit: PrivateRabbit, ledger: Ledger) -> None:
        self.site, self.rabbit, self.ledger = site, rabbit, ledger
        self.held: dict[str, Sequence[Told]] = {}
        """By what was killed."""
        self.lost: Sequence[Told] = ()
        """With their env worker."""

    async def kill(self, victim: str) -> None:
        async with self.ledger.holding(are_all_dialects) as held:
            self.held[victim] = held
            name = self._worker_of(held) if victim == "env worker" else victim
            await self._kill(name)
        await self._start(name)
        await self.ledger.have_ended(held)

    def _worker_of(self, held: Sequence[Told]) -> str:
        """That of the first one; those that are not held may return before it is killed."""
        workers = {self.site.processes[name].pid: name for name in ENV_WORKERS}
        self.lost = [each for each in held if each.worker == held[0].worker]
        return workers[held[0].worker]

    async def _kill(self, name: str) -> None:
        await asyncio.to_thread(self.rabbit.kill) if name == "broker" else await self.site.kill(
            name
        )

    async def _start(self, name: str) -> None:
        if name == "broker":
            self.rabbit.spawn()
            await asyncio.to_thread(self.rabbit.wait_until_ready)
        elif name == "gateway":
            await self.site.start_gateway()
        else:
            self.site.start(name, *self.site.commands[name])


async def test_agents_survive_the_death_of_every_part(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with running_rabbit() as rabbit:
        site = Site(tmp_path, rabbit.url, None)
        breaking = Breaking(site, rabbit, ledger)
        async with ledger.serving():
            try:
                await site.start_gateway()
                site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
                for name in ENV_WORKERS:
                    site.start(name, *AGENT)
                async with connected(site) as client:
                    run = await client.train(config(ledger))
                    async for event in run.events():
                        if isinstance(event.body, StepCompleted) and not breaking.held:
                            for victim in VICTIMS:
                                await breaking.kill(victim)
                    result = await run.result()
                    views = [view async for view in run.trajectories(all_attempts=True)]
            finally:
                site.stop()
    assert result.updates > 0
    record = Record(views)
    for told in ledger.told.values():
        nothing_is_lost(told, record)
    nothing_is_trained_twice(record)
    for told in (told for held in breaking.held.values() for told in held):
        assert record.endings[told.name]
    for told in (*breaking.held["gpu"], *breaking.held["gateway"]):
        it_went_on(told, record)
    assert breaking.lost
    for told in breaking.lost:
        it_was_tried_again(told, record)


class Record:
    """All endings of a run's episodes."""

    def __init__(self, views: Sequence[warren.TrajectoryView]) -> None:
        self.trained = [view.trajectory for view in views if view.fate == "trained"]
        self.endings: dict[str, list[EpisodeEnded]] = defaultdict(list)
        """By the name of the agent."""
        self.completed: Counter[Member] = Counter()
        """How often each member of a group has an outcome."""
        for view in views:
            ended = view.trajectory
            self.endings[asker_of(ended)].append(ended)
            self.completed[member_of(ended)] += isinstance(ended.outcome, Completed)


def asker_of(ended: EpisodeEnded) -> str:
    return name_in(words_of(ended.transcript.tokens.ids_T.tolist()))


def member_of(ended: EpisodeEnded) -> Member:
    return ended.spec.group, ended.spec.member


def nothing_is_lost(told: Told, record: Record) -> None:
    """Of one that came to its end, all that it was answered is recorded as it was told, and nothing else."""
    for ended in record.endings[told.name]:
        assert not ended.transcript.set_aside
        if isinstance(ended.outcome, Completed):
            assert told.has_returned
            assert has_recorded(told, ended)
            assert len(told.answers) == len(ended.transcript.actions) == len(ended.transcript.turns)


def has_recorded(told: Told, ended: EpisodeEnded) -> bool:
    transcript = ended.transcript
    if told.dialect == "tokens":
        so_far = " ".join(map(str, transcript.tokens.ids_T.tolist()))
        return all(f"{so_far} ".startswith(f"{answer} ") for answer in told.answers)
    return transcript.actions[: len(told.answers)] == told.answers


def nothing_is_trained_twice(record: Record) -> None:
    assert {str(each.spec.environment_config["dialect"]) for each in record.trained} == set(
        SURFACES
    )
    assert set(Counter(map(member_of, record.trained)).values()) == {1}
    assert set(Counter(map(asker_of, record.trained)).values()) == {1}
    assert all(isinstance(each.outcome, Completed) for each in record.trained)


def it_went_on(told: Told, record: Record) -> None:
    """Its next call was answered once the part was back."""
    for ended in record.endings[told.name]:
        assert isinstance(ended.outcome, Completed), ended.outcome


def it_was_tried_again(told: Told, record: Record) -> None:
    """By another agent, for it is gone with its env worker; what it was answered until then is recorded."""
    assert not told.has_returned
    assert any(has_recorded(told, ended) for ended in record.endings[told.name])
    for ended in record.endings[told.name]:
        assert isinstance(ended.outcome, Failed)
        assert ended.outcome.kind is FailureKind.NOT_REPLAYABLE
        assert record.completed[member_of(ended)] == 1
