"""What processes that run environments know, and what they may tell of it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.hosting import Player, hosting, observed, refused
from tests.support.interacting import spec
from tests.trust.permitted import JUDGE, KEY, policy

from warren_env_worker.environments.arithmetic import Arithmetic
from warren_env_worker.host.child.task_cache import MAX_KEPT, TaskCache
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Start
from warren_env_worker.host.request import start_of
from warren_env_worker.output.log import OutputLog, log_path
from warren_env_worker.permissions.granting import granted
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

NOSY = "tests.trust.environments:Nosy"
SECRET = "s3cret-" * 24
PIECE = "s3cret-s3cret-"
SHORT = "hunter2-hunter2"
BOUND = policy(secrets={"JUDGE": {"owners": ["ann"], "environments": ["nosy"]}})


@asynccontextmanager
async def hosting_nosy(of: OperatorPolicy, log_dir: Path | None = None) -> AsyncGenerator[Host]:
    host = Host(NOSY, policy=of, log_dir=log_dir)
    running = asyncio.create_task(host.run(), name="host")
    try:
        yield host
    finally:
        running.cancel()
        await asyncio.wait({running})


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setenv("WARREN_BROKER_URL", f"amqp://warren:{PIECE}@rabbit")
    monkeypatch.setenv("CLOUD_TOKEN", PIECE)


async def test_an_environment_gets_its_owners_secrets_and_no_credential_of_the_worker() -> None:
    async with hosting_nosy(BOUND) as host:
        ann = Player(host, spec("nosy", run_owner="ann", secrets=("JUDGE",)))
        shown = (await observed(ann.reset())).messages[0][1]
        known = json.loads(shown)
        assert "secret JUDGE" in known
        assert "PATH" in known
        assert PIECE not in shown
        assert not [name for name in known if name.startswith("WARREN_")]

        bob = Player(host, spec("nosy", run_owner="bob", secrets=("JUDGE",)))
        refusal = await refused(bob.reset())
    assert refusal.kind is FailureKind.ENVIRONMENT_CONFIG
    assert not refusal.is_retryable
    assert "none of this name for this run" in refusal.reason


async def test_no_piece_of_a_secret_is_told_where_texts_are_cut(tmp_path: Path) -> None:
    async with hosting_nosy(BOUND, log_dir=tmp_path) as host:
        player = Player(host, spec("nosy", run_owner="ann", secrets=("JUDGE",)))
        await observed(player.reset())
        refusal = await refused(player.step("a"))
    assert "x" * 250 + "<JUDGE>" in refusal.reason
    log = OutputLog(log_path(tmp_path, NOSY)).path.read_text()
    assert "=" * 100 in log
    assert PIECE[:7] not in refusal.reason + log


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_guess_at_anothers_secret_is_told_as_any_other(
    refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that knows the secret, for an episode of its owner."""
    monkeypatch.setenv(KEY, SHORT)
    rules = policy(secrets={"JUDGE": {"owners": ["ann"], "environments": ["quoting"]}})
    async with hosting("tests.trust.environments:Quoting", policy=rules) as host:
        words = f"{SHORT} {SHORT[:-1]}x"

        async def reason(owner: str, *secrets: str, refuses: bool = False) -> str:
            config = {"words": words, "refuses": refuses}
            player = Player(
                host,
                spec("quoting", run_owner=owner, secrets=secrets, environment_config=config),
            )
            if not refuses:
                await observed(player.reset())
            return (await refused(player.step("a") if not refuses else player.reset())).reason

        assert f"<JUDGE> {SHORT[:-1]}x" in await reason("ann", "JUDGE")
        assert words in await reason("mallory", refuses=refuses)


def test_nothing_is_kept_of_tasks_that_gave_way_to_others() -> None:
    def start(number: int) -> Start:
        of = spec("arithmetic", environment_config={"max_answer": number})
        return start_of(of, granted(policy(), of))

    tasks = TaskCache(Arithmetic)
    for number in range(MAX_KEPT + 1):
        tasks.load(start(10 + number))
        assert tasks.loaded_at(start(10 + number)) == number + 1
    assert not tasks.has_loaded(start(10))
    assert tasks.loaded_at(start(10)) == 0
    assert tasks.loaded_at(start(11)) == 2


def test_tasks_are_shared_by_those_alone_who_may_reach_the_same() -> None:
    def start(owner: str) -> Start:
        of = spec("arithmetic", run_owner=owner)
        rules = policy(services=[{"url": JUDGE, "owners": ["ann"]}])
        return start_of(of, granted(rules, of))

    tasks = TaskCache(Arithmetic)
    tasks.load(start("ann"))
    assert tasks.has_loaded(start("ann"))
    assert not tasks.has_loaded(start("bob"))
