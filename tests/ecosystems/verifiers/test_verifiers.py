"""The environments `verifiers` and `verifiers_v0` on the real packages, on a real sampler, and killed in mid-episode."""

import asyncio
import json
import os
import signal
import sys
import venv
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.episodes import policy
from tests.support.hosting import Player, child_pids, hosting
from tests.support.interacting import endings, spec, start, start_all
from tests.support.patience import PATIENCE_S
from tests.support.processes import children, until_dead
from tests.support.sampler_stage import sampler, settings_of

from warren_broker.memory import MemoryHub, open_hub
from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.package import package as foreign_package
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import Sampling
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FailureKind
from warren_schemas.ids import RunId, WorkerId
from warren_schemas.operator_policy import OperatorPolicy

ROOT = Path(__file__).parents[3]
MODULE = "warren_env_worker.environments.verifiers.environment"
CLASSES = {"verifiers": f"{MODULE}:Verifiers", "verifiers_v0": f"{MODULE}:VerifiersV0"}
TASKSETS = {"verifiers": "two_questions", "verifiers_v0": "two_questions_v0"}
SHOPS: dict[str, tuple[str, dict[str, bool]]] = {
    "verifiers": ("shopping", {}),
    "verifiers_v0": ("two_questions_v0", {"shop": True}),
}
GREEDY = Sampling(temperature=0.0, max_tokens=6)
NUMBER = iter(range(1000))
pytestmark = [
    pytest.mark.ecosystem_all,
    pytest.mark.server,
    pytest.mark.asyncio(loop_scope="module"),
]


def shown(name: str, *features: str) -> pytest.MarkDecorator:
    return pytest.mark.shows(name, *features)


def of_both(*features: str) -> pytest.MarkDecorator:
    """For both packages, of which the test shows these features."""
    names = {"verifiers": "verifiers v1", "verifiers_v0": "verifiers v0"}
    cases = [
        pytest.param(package, marks=pytest.mark.shows(shown, *features))
        for package, shown in names.items()
    ]
    return pytest.mark.parametrize("package", cases)


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As `warren env install` does it, with the packages that `make ecosystems` has installed, and our tasksets."""
    os.environ["WARREN_HOME"] = str(tmp_path_factory.mktemp("home"))
    for name in CLASSES:
        venv.create(virtual_environments.folder(name), symlinks=True)
        site = Path(f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
        there = [ROOT / f".venv-{name}" / site, Path(__file__).with_name("tasksets")]
        (virtual_environments.folder(name) / site / "tasksets.pth").write_text(
            "\n".join(map(str, there))
        )
        virtual_environments.note_installed(name)


@asynccontextmanager
async def env_worker(hub: MemoryHub) -> AsyncGenerator[None]:
    named = (*CLASSES.values(), "tests.ecosystems.verifiers.native:Native")
    settings = EnvWorkerSettings(environments=named, only_named=True, worker=WorkerId("env_1"))
    allowed = OperatorPolicy(functions=tuple(f"{taskset}:*" for taskset in TASKSETS.values()))
    serving = serve_env_worker(hub.client("env_1"), settings, policy=allowed)
    running = asyncio.create_task(serving)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(
    installed: None, tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[MemoryHub]:
    folder = tmp_path_factory.mktemp("verifiers")
    async with (
        open_hub(folder / "broker") as hub,
        sampler(hub, settings_of(tiny_models, folder)),
        env_worker(hub),
    ):
        yield hub


async def played(hub: MemoryHub, name: str, **config: object) -> EpisodeEnded:
    number = next(NUMBER)
    of = spec(
        name,
        environment_config=config,
        sampling=GREEDY,
        policy=policy(),
    )
    run = RunId(f"run_{number}")
    async with asyncio.timeout(PATIENCE_S):
        await start_all(hub.client(f"starter {number}"), [start(f"ep_{number}", of=of, run=run)])
        (ended,) = await endings(hub.client(f"reader {number}"), 1, run=run)
    return ended


def recorded(ended: EpisodeEnded) -> list[list[object]]:
    """Of each branch, all that is trained on."""
    assert isinstance(ended.outcome, Completed), ended.outcome
    return [
        [
            tokens.ids_T.tolist(),
            tokens.mask_T.tolist(),
            tokens.logprobs_T.tolist(),
            tokens.versions_T.tolist(),
        ]
        for tokens in ended.transcript.sequences
    ]


@of_both("tasks", "several turns")
async def test_what_is_recorded_is_what_a_native_environment_records(
    hub: MemoryHub, package: str
) -> None:
    native = await played(hub, "native")
    theirs = await played(hub, package, taskset=TASKSETS[package], arguments={"n": 1})
    assert recorded(theirs) == recorded(native)
    assert len(recorded(theirs)) == 1  # nothing is tokenized anew
    assert isinstance(theirs.outcome, Completed)
    assert theirs.outcome.reward == 4.0
    assert {"turns", "letters"} & theirs.outcome.metrics.keys()


QUESTION = "question-0"


@pytest.mark.parametrize(
    ("package", "arguments", "id"),
    [
        pytest.param("verifiers", {"named": True}, QUESTION, marks=shown("verifiers v1", "tasks")),
        ("verifiers", {}, None),
        pytest.param(
            "verifiers_v0", {"named": "info"}, QUESTION, marks=shown("verifiers v0", "tasks")
        ),
        ("verifiers_v0", {"named": "text"}, QUESTION),
        ("verifiers_v0", {"named": "number"}, "100"),
        ("verifiers_v0", {}, None),
    ],
)
async def test_a_task_has_the_id_that_its_source_gives_it(
    hub: MemoryHub, package: str, arguments: dict[str, object], id: str | None
) -> None:
    given = {"n": 1, **arguments}
    ended = await played(hub, package, taskset=TASKSETS[package], arguments=given)
    assert (ended.transcript.task_id, ended.task_id) == (id, id or "train/0")


@of_both("retries")
async def test_what_fails_there_is_a_typed_failure_and_no_reward(
    hub: MemoryHub, package: str
) -> None:
    for kaput, kind, reason in (
        ("reward", FailureKind.ENVIRONMENT_ERROR, "the reward is kaput"),
        ("process", FailureKind.ENVIRONMENT_CRASHED, f"{package} was lost, 3 times at one action"),
        ("counting", FailureKind.ENVIRONMENT_CRASHED, f"{package} was lost, 3 times at one action"),
    ):
        arguments = {"kaput": kaput}
        ended = await played(hub, package, taskset=TASKSETS[package], arguments=arguments)
        assert isinstance(ended.outcome, Failed)
        assert ended.outcome.kind is kind
        assert reason in ended.outcome.reason


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


def episode(host: Host, package: str, taskset: str, arguments: object, **config: object) -> Player:
    config |= {"taskset": taskset, "arguments": arguments}
    return Player(host, spec(package, environment_config=config))


def text(answer: object) -> str:
    assert isinstance(answer, Observed), answer
    return answer.messages[-1][1]


@of_both("tools")
async def test_tools_of_a_taskset(package: str) -> None:
    others = {*child_pids()}
    async with hosting(CLASSES[package]) as host:
        player = episode(host, package, *SHOPS[package])
        begun = await player.reset()
        assert isinstance(begun, Observed)
        name = "prices_price" if "prices_price" in begun.messages[0][1] else "price"
        assert "The price of an article." in begun.messages[0][1]
        assert text(await player.step(call(name, article="tea"))) == "3"
        (server,) = [pid for child in {*child_pids()} - others for pid in children(child)]
        below = [pid for process in children(server) for pid in children(process)]
        assert len(below) == (package == "verifiers")  # its tool server
        ended = await player.step("It is 3.")
        assert isinstance(ended, Observed)
        assert ended.is_over
        for pid in below:
            await until_dead(pid)


@of_both("env worker killed")
async def test_a_killed_env_worker_costs_nothing(package: str) -> None:
    others = {*child_pids()}
    async with hosting(CLASSES[package]) as lost:
        player = episode(lost, package, TASKSETS[package], {})
        await player.reset()
        assert text(await player.step("one")) == "and 0?"
        for pid in {*child_pids()} - others:
            os.kill(pid, signal.SIGKILL)
        async with hosting(CLASSES[package]) as other:
            ended = await player.moved_to(other).step("two")
    assert isinstance(ended, Observed), ended
    assert (ended.is_over, ended.reward) == (True, 4.0)


@of_both("tasks")
async def test_a_taskset_that_is_none_and_wrong_arguments_are_refused(package: str) -> None:
    async with hosting(CLASSES[package]) as host:
        for taskset, arguments, reason in (
            ("os", {}, ""),
            ("no-such", {}, "no_such" if package == "verifiers" else "no-such"),
            (TASKSETS[package], {"m": 3}, "m"),
            ("../x", {}, "expected the id"),
            (
                TASKSETS[package],
                {"system_prompt": "/no/such"},
                "system_prompt" if package == "verifiers_v0" else "/no/such",
            ),
        ):
            answer = await episode(host, package, taskset, arguments).reset()
            assert isinstance(answer, Refused), answer
            assert answer.kind is FailureKind.ENVIRONMENT_CONFIG
            assert reason in answer.reason


async def test_a_taskset_is_loaded_to_count_its_tasks_and_for_no_episode() -> None:
    made = {"taskset": "two_questions", "arguments": {"kaput": "load"}}
    conversation = await foreign_package("verifiers", "verifiers_episode.py").episode()
    assert await conversation.ask({"make": made}) == {}
    assert "the tasks are kaput" in (await conversation.ask({"step": None}))["error"]
    conversation.close()


async def test_an_environment_that_runs_its_agent_several_times_is_refused() -> None:
    async with hosting(CLASSES["verifiers"]) as host:
        answer = await episode(host, "verifiers", "several_runs", {}).reset()
        assert isinstance(answer, Refused), answer
        assert answer.kind is FailureKind.ENVIRONMENT_CONFIG
        assert "SeveralRunsEnv is no SingleAgentEnv" in answer.reason
