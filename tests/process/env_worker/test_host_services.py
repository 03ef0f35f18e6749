"""What episodes ask of host services: in every isolation, under the operator's policy, and when processes are killed."""

import asyncio
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.crowd import below
from tests.support.environments import LIMIT_S
from tests.support.forked_hosts import hosting
from tests.support.hosting import Player, observed, refused
from tests.support.interacting import spec
from tests.support.processes import kill_and_wait
from tests.support.serviced_environments import MARK, Cells, CellsLater, a_name, become, pids_called
from tests.support.tutorial import block_with

import warren.environment
from warren.environment import Context, Env, StepResult, TaskError
from warren.host_services import AnswerForm, SandboxFailed, SandboxSettings, Verdict
from warren.testing import play
from warren_broker.worker.child import Child
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed
from warren_env_worker.host_services.local import offered
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

EXAMPLES = Path(__file__).parents[3] / "examples"
CLASSES = ("Cells", "FreshCells", "CellsLater")


def reference(class_name: str) -> str:
    return f"tests.support.serviced_environments:{class_name}"


async def begun(host: Host, **config: object) -> Player:
    player = Player(host, spec("cells", environment_config=config))
    (message,) = (await observed(player.reset())).messages
    assert message[1] == "ok: "
    return player


async def answered(player: Player, action: str) -> str:
    (message,) = (await observed(player.step(action))).messages
    return str(message[1])


@pytest.mark.parametrize("class_name", CLASSES)
async def test_cells_and_answers_in_every_isolation(class_name: str) -> None:
    async with hosting(reference(class_name)) as host:
        player = await begun(host)
        assert await answered(player, "print(x)\nx * 7") == "ok: 6\n42\n"
        assert (await answered(player, "1 / 0")).endswith("division by zero\n")
        assert await answered(player, "own 'x' in globals()") == "ok: False\n"
        assert await answered(player, "verify 1/2 0.5") == "equal"
        assert await answered(player, "verify x+1 1+y") == "different"
        assert (await observed(player.step("stop"))).is_over


@pytest.mark.parametrize("class_name", CLASSES)
async def test_an_episode_that_is_rebuilt_elsewhere_sees_the_same(class_name: str) -> None:
    async with hosting(reference(class_name)) as host, hosting(reference(class_name)) as other:
        player = await begun(host)
        await answered(player, "import random; random.seed(3); y = random.random()")
        await answered(player, "y, hash('a'), {'b', 'a', 'c'}")
        assert (await answered(player.moved_to(other), "x")) == "ok: 6\n"


@pytest.mark.parametrize("class_name", CLASSES)
async def test_sessions_end_with_their_episode(class_name: str) -> None:
    name = a_name()
    async with hosting(reference(class_name)) as host:
        player = await begun(host)
        await answered(player, MARK.format(name))
        await answered(player, f"own {MARK.format(name)}")
        assert len(pids_called(name)) == 2
        await observed(player.step("stop"))
        await become(lambda: not pids_called(name))


@pytest.mark.parametrize("class_name", CLASSES)
@pytest.mark.parametrize("is_busy", [False, True])
async def test_nothing_is_left_running_when_its_process_is_killed(
    class_name: str, *, is_busy: bool
) -> None:
    name = a_name()
    async with hosting(reference(class_name), spawn_child=Child.spawn) as host:
        player = await begun(host)
        await answered(player, MARK.format(name))
        step = asyncio.create_task(player.step("while True: pass")) if is_busy else None
        await become(lambda: len(pids_called(name)) == 1 + is_busy)
        kill_and_wait(below())  # whoever dies with a parent may be gone before its turn
        await become(lambda: not pids_called(name))
        if step is not None:
            assert (await refused(step)).kind is FailureKind.ENVIRONMENT_CRASHED
            assert await answered(await begun(host), "x") == "ok: 6\n"


async def test_a_process_that_asked_is_kept_for_the_next_episode() -> None:
    async with hosting(reference("Cells")) as host:
        pids: list[float] = []
        for _ in range(8):
            player = await begun(host)
            pids.append((await observed(player.step("stop"))).metrics["pid"])
        assert len(set(pids)) < len(pids)


@pytest.mark.parametrize("class_name", ["Cells", "CellsLater"])
async def test_the_operators_policy_holds(class_name: str) -> None:
    policy = OperatorPolicy.model_validate(
        {"sandbox": {"limits": {"cell_s": 10, "memory_mib": 64}}}
    )
    async with hosting(reference(class_name), policy=policy) as host:
        player = await begun(host)
        assert (await answered(player, "bytearray(100 << 20)")).startswith(("error: ", "memory: "))
        for asked, told in [
            ({"limits": {"memory_mib": 65}}, "operator allows: memory_mib 65"),
            ({"python": "/usr/bin/python3"}, "python: /usr/bin/python3 is not one"),
            ({"tier": "http", "url": "http://127.0.0.1:1"}, "is no service"),
        ]:
            player = Player(host, spec("cells", environment_config={"sandbox": asked}))
            refusal = await refused(player.reset())
            assert (refusal.kind, refusal.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
            assert told in refusal.reason


async def test_a_cell_is_stopped_where_the_settings_say() -> None:
    async with hosting(reference("CellsLater")) as host:
        player = await begun(host, sandbox={"limits": {"cell_s": LIMIT_S}})
        assert await answered(player, "while True: pass") == "timeout: "
        assert await answered(player, "x") == "ok: 6\n"


async def test_many_episodes_ask_at_once() -> None:
    async with hosting(reference("Cells")) as host:
        players = await asyncio.gather(*(begun(host) for _ in range(12)))
        told = await asyncio.gather(*(answered(p, f"x * {n}") for n, p in enumerate(players)))
        assert told == [f"ok: {6 * n}\n" for n in range(12)]
        for player in players:
            answer = await player.step("stop")
            assert isinstance(answer, Observed)


@pytest.mark.parametrize("environment", [Cells, CellsLater])
def test_play_offers_them_as_well_and_leaves_nothing(environment: type[Env]) -> None:
    name = a_name()
    said = iter([MARK.format(name), "x * 7", "verify 0.5 1/2", "stop"])
    episode = play(environment(), lambda _: next(said))
    shown = [message.content for message in episode.messages if message.role == "user"]
    assert shown == ["ok: ", "ok: ", "ok: 42\n", "equal"]
    asyncio.run(become(lambda: not pids_called(name)))


def test_play_says_what_is_wrong_with_settings() -> None:
    settings = SandboxSettings(tier="bubblewrap", libraries="/nowhere")
    with pytest.raises(SandboxFailed, match="libraries: no packages were installed"):
        play(Cells(settings), lambda _: "stop")


async def test_a_right_answer_of_no_use_is_the_tasks_fault() -> None:
    with offered() as host_services:
        context = replace(Context.derive(1), host_services=host_services)
        with pytest.raises(TaskError, match="4001 characters"):
            await context.verify("1", "1" * 4001)
        assert await context.verify("so it is \\boxed{2}", "2", AnswerForm.BOXED) is Verdict.EQUAL
        assert await context.verify("it is 2", "2", AnswerForm.BOXED) is Verdict.NO_ANSWER


async def test_a_cell_that_is_given_up_costs_its_session_alone() -> None:
    with offered() as host_services:
        context = replace(Context.derive(1), host_services=host_services)
        other = context.sandbox()
        await asyncio.gather(other.run("y = 1"), context.python("x = 1"))
        waiting = asyncio.ensure_future(context.python("while True: pass"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (await context.python("'x' in globals()")).output == "False\n"
        assert (await other.run("y")).output == "1\n"
        other.close()
        with pytest.raises(SandboxFailed, match="it has ended"):
            await other.run("y")


def test_the_example_runs_cells_and_verifies_the_answer() -> None:
    spec = importlib.util.spec_from_file_location("sandboxed", EXAMPLES / "sandboxed.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    primes = module.Primes(largest=11)
    said = iter(["```python\nn = 4\n```", "```python\nprint(n)\n```", "<answer>4.0</answer>"])
    episode = play(primes, lambda _: next(said))
    shown = [message.content for message in episode.messages if message.role == "user"]
    assert shown[1:] == ["[it printed nothing]", "4\n"]
    assert episode.reward == 1.0


def test_the_page_shows_what_works() -> None:
    names: dict[str, Any] = vars(warren.environment) | {"Env": Env, "StepResult": StepResult}
    exec(block_with("class Calculator("), names)  # noqa: S102 - our own documentation
    calculator = names["Calculator"]()
    assert play(calculator, lambda _: f"{calculator.number} ** 2").reward == 1.0
    assert play(calculator, lambda _: "1").reward == 0.0
