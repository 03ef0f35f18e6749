"""The service as its users see it, on both stores: each test shows rows of the parity list and is named after them.

The two users are on machines that have the SDK alone. All tests of a store share one deployment; each
ends the runs that it made.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from tests.support.deployment import Site
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_postgres import PrivatePostgres
from tests.support.private_rabbit import PrivateRabbit
from tests.system.service.scene import (
    FOR_LONG,
    MODELS_PER_WORKER,
    ROOM,
    Scene,
    User,
    full,
    job,
    until,
    until_state,
)

from warren import AuthenticationError, Client, NotFound, Run, RunFailed
from warren_schemas.events import RunState
from warren_schemas.http import WorkerView

REFUSED = 3
"""The exit code of a command whose key may not."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.storm,
    pytest.mark.thorough,
    several_waits,
]


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["sqlite", "postgresql"],
)
async def scene(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    private_rabbit: PrivateRabbit,
) -> AsyncGenerator[Scene]:
    store: str | None = None
    if request.param == "postgresql":
        server: PrivatePostgres = request.getfixturevalue("postgres_server")
        store = server.new_database()
    folder: Path = tmp_path_factory.mktemp("service")
    (folder / "home").mkdir()
    scene = Scene(Site(folder / "home", private_rabbit.url, store), folder)
    try:
        await scene.begin()
        await scene.new_user("ann")
        await scene.new_user("bob")
        yield scene
    finally:
        await asyncio.to_thread(scene.site.stop)


@pytest.fixture
def ann(scene: Scene) -> User:
    return scene.users["ann"]


@pytest.fixture
def bob(scene: Scene) -> User:
    return scene.users["bob"]


async def trainers(client: Client) -> list[WorkerView]:
    return [worker for worker in await client.workers() if worker.role == "trainer"]


async def until_free(client: Client) -> None:
    """No trainer holds anything, as the gateway has heard."""

    async def is_free() -> bool:
        return not any(worker.in_flight for worker in await trainers(client))

    await until(is_free)


async def started_in_order(runs: list[Run]) -> None:
    """Those that have one place for all of them."""
    for run in runs:
        await run.result()
    starts = [(await run.refresh()).started_s or 0.0 for run in runs]
    assert starts == sorted(starts), [start - starts[0] for start in starts]


async def fill(client: Client) -> list[Run]:
    """Runs that keep all room until they are cancelled."""
    runs = [await client.train(job(f"long-{n}", FOR_LONG)) for n in range(ROOM)]
    return [await until_state(run, RunState.RUNNING) for run in runs]


async def test_parity_row_01_04_a_job_is_submitted_listed_and_finished_from_a_machine_with_the_sdk_alone(
    ann: User, bob: User
) -> None:
    (ann.folder / "job.yaml").write_text(
        "name: by-hand\nmodel: {base: warren/tiny}\nenvironments: [{name: guess}]\n"
        "evaluation: {before: false, episodes: 8}\n"
    )
    shown = await ann.type("train", "job.yaml", "--detach", "--set", f"limits.steps={FOR_LONG}")
    async with ann.client() as client:
        run = await until_state(await client.run("by-hand"), RunState.RUNNING)
        assert run.id in shown
        assert run.id in await ann.type("runs", "ls")
        assert run.id not in await bob.type("runs", "ls")
        assert (await ann.read("runs", "show", run.id))["state"] == "running"
        await ann.type("runs", "finish", run.id)
        assert (await run.result()).episodes
    assert "its owner ended it early" in await ann.type("runs", "show", run.id)


async def test_parity_row_03_each_state_has_a_time_and_a_reason(ann: User) -> None:
    lucky = [{"name": "chance", "config": {"failing": 1.0}}]
    async with ann.client() as client:
        good = await client.train(job("good"))
        bad = await client.train(
            job(
                "bad",
                environments=lucky,
                limits={"steps": 2, "episode_attempts": 1, "failed_groups": 2},
            )
        )
        stopped = await client.train(job("stopped", FOR_LONG))
        await until_state(stopped, RunState.RUNNING)
        await stopped.cancel()
        await good.result()
        with pytest.raises(RunFailed, match="it broke"):
            await bad.result()
        await until_state(stopped, RunState.CANCELLED)
        for run, end in ((good, "completed"), (bad, "failed"), (stopped, "cancelled")):
            await run.refresh()
            history = run.view.history
            states = [entered.state for entered in history]
            assert states[:3] == ["queued", "starting", "running"] and states[-1] == end, history
            assert history == tuple(sorted(history, key=lambda entered: entered.at_s))
            assert (run.view.error is not None) == (end != "completed")
            assert run.view.started_s and run.view.ended_s
    assert "it broke" in await ann.type("runs", "show", "bad")


async def test_parity_row_03_a_run_that_waits_for_drained_workers_says_so(
    ann: User, scene: Scene
) -> None:
    async with ann.client() as client:
        ours = [worker.id for worker in await trainers(client)]
        for worker in ours:
            await scene.admin.type("workers", "drain", worker)

        async def are_drained() -> bool:
            return all(worker.is_draining for worker in await trainers(client))

        await until(are_drained)
        run = await client.train(job("patient", 1))

        async def is_told() -> bool:
            return "is drained" in ((await run.refresh()).waiting_for or "")

        await until(is_told)
        for words in (("runs", "ls"), ("runs", "show", run.id)):
            shown = await ann.type(*words)
            assert "every trainer of warren/tiny is drained; an admin has one take" in shown
        for worker in ours:
            await scene.admin.type("workers", "undrain", worker)
        await run.result()


async def test_parity_row_05_65_jobs_start_in_order_by_themselves_and_a_gateway_that_dies_forgets_none(
    ann: User, scene: Scene
) -> None:
    async with ann.client() as client:
        await until_free(client)
        long = await fill(client)
        waiting = [await client.train(job(f"next-{n}", 1)) for n in range(5)]

        async def are_placed() -> bool:
            views = [await run.refresh() for run in waiting]
            return [view.queue and view.queue.number for view in views] == [1, 2, 3, 4, 5]

        await until(are_placed)
        shown = await ann.type("runs", "ls")
        assert "queued (number 5)" in shown
        last = waiting[-1].view.queue
        assert last and (last.n_ahead_own, last.n_ahead_others) == (4, 0)

        await scene.site.kill("gateway")
        await scene.site.start_gateway()
        await until(are_placed)
        await long[0].cancel()
        await started_in_order(waiting)
        assert await asyncio.to_thread(scene.n_job_messages, waiting) == len(waiting)
        for run in long:
            await run.cancel()


async def test_parity_row_06_a_pool_of_workers_is_shared_and_none_is_given_too_much(
    ann: User, bob: User
) -> None:
    async with ann.client() as anns, bob.client() as bobs:
        await until_free(anns)
        long = [await anns.train(job(f"a-{n}", FOR_LONG)) for n in range(3)]
        for run in long:
            await until_state(run, RunState.RUNNING)
        whole = await bobs.train(full("whole", FOR_LONG))
        small = await anns.train(job("small"))

        async def are_placed() -> bool:
            views = [await run.refresh() for run in (whole, small)]
            return all(view.queue for view in views)

        await until(are_placed)
        for run in long:
            await run.cancel()
        for run in (whole, small):
            await until_state(run, RunState.RUNNING, RunState.COMPLETED)
        await small.result()

        async def is_alone() -> bool:
            held = [(w.in_flight, w.capacity) for w in await trainers(anns)]
            assert all(n <= most for n, most in held), held
            return sorted(held) == [(0, MODELS_PER_WORKER), (1, 1)]

        await until(is_alone)
        await whole.cancel()
        await until_free(anns)


async def test_parity_row_08_a_job_s_logs_are_read_by_its_owner_and_are_of_that_job(
    ann: User, bob: User
) -> None:
    """Of all its parts, and with a reason where an episode failed; another job has its own."""
    unlucky = [{"name": "chance", "config": {"failing": 1.0}}]
    lost = {"steps": 2, "episode_attempts": 1, "failed_groups": 2}
    async with ann.client() as client:
        good = await client.train(job("good-log"))
        bad = await client.train(job("bad-log", environments=unlucky, limits=lost))
        await good.result()
        with pytest.raises(RunFailed, match="it broke"):
            await bad.result()
    of_good, of_bad = await ann.type("logs", good.id), await ann.type("logs", bad.id)
    for part in ("coordinator", "trainer", "sampler", "env_worker"):
        assert f"  {part} " in of_good
    assert "it broke" in of_bad and "it broke" not in of_good
    assert "it broke" not in await bob.type("logs", bad.id, code=2)


async def test_parity_row_10_users_and_keys_are_made_listed_and_switched_off_by_admins(
    ann: User, scene: Scene
) -> None:
    carla = await scene.new_user("carla")
    assert "carla" in await carla.type("whoami")
    assert "carla" in await scene.admin.type("users", "ls")
    assert "admin" in await ann.type("users", "ls", code=REFUSED)
    await scene.admin.type("users", "disable", "carla")
    await carla.type("runs", "ls", code=REFUSED)
    await scene.admin.type("users", "enable", "carla")
    await carla.type("runs", "ls")
    made = await carla.read("keys", "create", "reader", "--scope", "read")
    carla.key = str(made["key"])
    await carla.type("runs", "ls")
    async with carla.client() as client:
        with pytest.raises(AuthenticationError, match="submit"):
            await client.train(job("forbidden"))
    assert "carla" in await scene.admin.type("audit")


async def test_parity_row_11_nobody_touches_or_sees_a_job_of_somebody_else(
    ann: User, bob: User, scene: Scene
) -> None:
    async with ann.client() as client, bob.client() as other:
        run = await until_state(await client.train(job("mine", FOR_LONG)), RunState.RUNNING)
        theirs = Run(other._transport, run.view)  # pyright: ignore[reportPrivateUsage]
        deeds = (
            theirs.refresh, theirs.cancel, theirs.finish, theirs.pause, theirs.resume, theirs.retry,
            theirs.delete, theirs.checkpoints, lambda: theirs.download(bob.folder / "stolen"),
            lambda: anext(theirs.events()),
        )  # fmt: skip
        for deed in deeds:
            with pytest.raises(NotFound):
                await deed()
        async with scene.admin.client() as admin:
            assert run.id in [one.id for one in await admin.runs()]
            await (await admin.run(run.id)).cancel()
        await until_state(run, RunState.CANCELLED)


async def test_parity_row_64_a_killed_worker_s_jobs_go_on_elsewhere_and_its_room_comes_back(
    ann: User, scene: Scene
) -> None:
    async with ann.client() as client:
        await until_free(client)
        runs = await fill(client)
        waiting = await client.train(job("after", 1))
        await scene.site.kill("gpu-1")
        scene.start_gpu_worker("gpu-1")
        await until_state(waiting, RunState.QUEUED)
        for run in runs:
            steps = (await run.refresh()).step
            await until(lambda run=run, steps=steps: _has_moved(run, steps))
        for run in runs:
            await run.cancel()
        await waiting.result()
        await until_free(client)


async def _has_moved(run: Run, steps: int) -> bool:
    view = await run.refresh()
    return view.state is RunState.RUNNING and view.step > steps + 2


async def test_parity_row_66_keys_are_not_stored_and_a_revoked_one_ends_what_it_had_open(
    ann: User, scene: Scene
) -> None:
    async with scene.admin.client() as admin:
        made = await admin.access.create_key("lost laptop", user="ann")
    stolen = User("ann", ann.url, made.key, ann.folder)
    assert made.key.rpartition("_")[2] not in await asyncio.to_thread(_everything_stored, scene)
    async with ann.client() as client, stolen.client() as thief:
        run = await until_state(await client.train(job("watched", FOR_LONG)), RunState.RUNNING)
        watched = await thief.run(run.id)
        reading = asyncio.create_task(_read_on(watched))
        await client.access.revoke_key(made.view.id)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(AuthenticationError):
                await reading
        with pytest.raises(AuthenticationError):
            await watched.refresh()
        await run.cancel()


async def _read_on(run: Run) -> None:
    async for _ in run.events():
        pass
    raise AssertionError("the run has ended")


def _everything_stored(scene: Scene) -> str:
    """All of the store, as text."""
    if scene.site.store is None:
        files = scene.site.home.glob("*.db*")
        return "".join(path.read_bytes().decode("latin-1") for path in files)
    with psycopg.connect(scene.site.store.replace("+psycopg", "").partition("?")[0]) as connection:
        names = [
            row[0]
            for row in connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname='public'"
            )
        ]
        return "".join(
            str(connection.execute(f'SELECT * FROM "{name}"'.encode()).fetchall()) for name in names
        )
