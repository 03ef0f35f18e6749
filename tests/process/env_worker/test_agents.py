"""Agents on a real env worker and a real sampler: what is recorded, what fails, and how it is told."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from tests.support.conversations import SCRIPTS, SURFACES
from tests.support.environments import LIMIT_S
from tests.support.episodes import policy
from tests.support.forked_hosts import hosting
from tests.support.hosting import Player, observed, playing, refused
from tests.support.interacting import endings, spec, start, start_all
from tests.support.patience import PATIENCE_S
from tests.support.sampler_stage import sampler, settings_of

from warren_broker.memory import MemoryHub, open_hub
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import Sampling
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind
from warren_schemas.ids import RunId, WorkerId

HOSTED = (
    *(f"tests.support.conversations:{each}" for each in ("Native", "Speaks", "Replays")),
    *(
        f"tests.support.agents:{each}"
        for each in ("Troubled", "Parallel", "Blocking", "Curl", "Exits")
    ),
)
GREEDY = Sampling(temperature=0.0, max_tokens=6)
NUMBER = iter(range(1000))


@asynccontextmanager
async def env_worker(hub: MemoryHub, name: str) -> AsyncGenerator[asyncio.Task[None]]:
    settings = EnvWorkerSettings(environments=HOSTED, only_named=True, worker=WorkerId(name))
    running = asyncio.create_task(serve_env_worker(hub.client(name), settings))
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait({running})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(
    tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[MemoryHub]:
    folder = tmp_path_factory.mktemp("agents")
    async with (
        open_hub(folder / "broker") as hub,
        sampler(hub, settings_of(tiny_models, folder)),
        env_worker(hub, "env_1"),
    ):
        yield hub


async def played(
    hub: MemoryHub,
    name: str,
    max_turns: int = 8,
    purpose: EpisodePurpose = EpisodePurpose.TRAIN,
    **config: object,
) -> EpisodeEnded:
    number = next(NUMBER)
    of = spec(
        name,
        environment_config=config,
        max_turns=max_turns,
        purpose=purpose,
        sampling=GREEDY,
        policy=policy(),
    )
    run = RunId(f"run_{number}")
    item = start(f"ep_{number}", of=of, run=run)
    async with asyncio.timeout(PATIENCE_S):
        await start_all(hub.client(f"starter {number}"), [item])
        (ended,) = await endings(hub.client(f"reader {number}"), 1, run=run)
    return ended


def recorded(ended: EpisodeEnded) -> list[list[object]]:
    """Of each branch, all that is trained on."""
    assert isinstance(ended.outcome, Completed), ended.outcome
    return [
        [
            branch.tokens.ids_T.tolist(),
            branch.tokens.mask_T.tolist(),
            branch.tokens.logprobs_T.tolist(),
            branch.tokens.versions_T.tolist(),
        ]
        for branch in ended.transcript.branches
    ]


def told(ended: EpisodeEnded) -> list[list[object]]:
    """Of each branch, what was said."""
    return [
        [(m.role, m.content, m.is_quoted) for m in branch.messages]
        for branch in ended.transcript.branches
    ]


def failed(ended: EpisodeEnded) -> Failed:
    assert isinstance(ended.outcome, Failed), ended.outcome
    return ended.outcome


pytestmark = pytest.mark.asyncio(loop_scope="module")


N_BRANCHES = {"straight": 1, "rewritten": 3, "tools": 1, "tools, rewritten": 3}


@pytest.mark.parametrize("purpose", [EpisodePurpose.TRAIN, EpisodePurpose.DEMONSTRATE])
@pytest.mark.parametrize("script", SCRIPTS)
async def test_what_is_recorded_is_what_a_native_environment_records(
    hub: MemoryHub, script: str, purpose: EpisodePurpose
) -> None:
    """In every dialect. What is sampled is no call of a tool; in demonstrations, the first action is one."""
    native = await played(hub, "native", purpose=purpose, script=script)
    assert len(recorded(native)) == N_BRANCHES[script]
    for dialect in SURFACES:
        agent = await played(hub, "speaks", purpose=purpose, dialect=dialect, script=script)
        assert recorded(agent) == recorded(native), dialect
        assert dialect == "tokens" or told(agent) == told(native), dialect
        assert agent.outcome == native.outcome
        assert agent.transcript.actions == native.transcript.actions


async def test_calls_at_once_are_branches_and_what_is_asked_again_is_sampled_once(
    hub: MemoryHub,
) -> None:
    ended = await played(hub, "parallel")
    assert len(recorded(ended)) == 4
    assert [len(ended.transcript.turns_of(n)) for n in range(4)] == [1, 1, 1, 1]


async def test_a_plain_function_and_a_program_are_agents(hub: MemoryHub) -> None:
    blocking, curl = await asyncio.gather(played(hub, "blocking"), played(hub, "curl"))
    assert isinstance(blocking.outcome, Completed)
    assert blocking.outcome.reward == 0.5
    assert blocking.outcome.metrics == {"said": 1.0, "half": -0.5}
    assert isinstance(curl.outcome, Completed)
    assert curl.outcome.reward == 0.5


@pytest.mark.parametrize(
    ("how", "kind", "reason"),
    [
        ("never asks", FailureKind.ENVIRONMENT_ERROR, "never called the model"),
        ("raises", FailureKind.ENVIRONMENT_ERROR, "RuntimeError: it broke"),
        ("waits", FailureKind.ENVIRONMENT_TIMEOUT, f"took longer than {LIMIT_S:g} s"),
        ("gives nothing", FailureKind.NO_REWARD, "gave no reward at any turn"),
    ],
)
async def test_an_agent_in_trouble_is_a_typed_failure(
    hub: MemoryHub, how: str, kind: FailureKind, reason: str
) -> None:
    failure = failed(await played(hub, "troubled", how=how))
    assert failure.kind is kind
    assert reason in failure.reason


async def test_a_program_that_fails_says_how(hub: MemoryHub) -> None:
    failure = failed(await played(hub, "exits"))
    assert "bash ended with exit code 3" in failure.reason
    assert "sorry" in failure.reason


async def test_an_agent_that_goes_on_is_cut_with_what_it_got(hub: MemoryHub) -> None:
    ended = await played(hub, "troubled", max_turns=3, how="goes on")
    assert isinstance(ended.outcome, Completed)
    assert (ended.outcome.reward, ended.outcome.truncated) == (0.75, True)


async def test_an_agent_that_asks_the_same_again_goes_on_where_its_process_was_lost() -> None:
    async with (
        hosting("tests.support.conversations:Replays") as one,
        hosting("tests.support.conversations:Replays") as other,
    ):
        player = await playing(one, "replays")
        shown = [await observed(player.step(words)) for words in ("1", "2")]
        assert [each.after for each in shown] == [None, 1]
        moved = player.moved_to(other)
        last = await observed(moved.step("3"))
        assert (last.messages, last.after) == ((await observed(player.step("3"))).messages, 0)
        assert (await observed(moved.step("4"))).after == 2
        assert (await observed(moved.step("5"))).reward == 1.0


@pytest.mark.parametrize("dialect", SURFACES)
async def test_it_gets_the_recorded_answers_when_it_is_started_again(
    hub: MemoryHub, dialect: str
) -> None:
    ended = await played(hub, "replays", dialect=dialect)
    messages, turns = ended.transcript.messages, ended.transcript.turns
    before = {"messages": messages[:-1], "turns": turns[:-1]}
    async with hosting("tests.support.conversations:Replays") as host:
        player = Player(host, ended.spec)
        player.transcript = ended.transcript.model_copy(update=before)
        last = await observed(player.step(messages[-1].content))
    assert (last.is_over, last.reward, last.digest) == (True, 1.0, turns[-1].digest)


async def test_the_process_of_an_episode_has_the_endpoint_s_module_before_it_begins() -> None:
    async with hosting("tests.support.agents:Prepared") as host:
        player = await playing(host, "prepared")
        assert (await observed(player.step("?"))).reward == 1.0


async def test_one_that_may_not_is_not_started_again() -> None:
    async with (
        hosting("tests.support.conversations:Speaks") as one,
        hosting("tests.support.conversations:Speaks") as other,
    ):
        player = await playing(one, "speaks")
        failure = await refused(player.moved_to(other).step("1"))
        assert failure.kind is FailureKind.NOT_REPLAYABLE
        assert failure.is_retryable
