"""Two tenants share two GPU workers: who gets what, when, and what becomes of it when things break.

An admin makes two users. Each submits, from a machine with the SDK alone, LoRA jobs and full ones, many more
than there is room for. While they wait and run, a worker is killed, another one is drained and stopped, and a key is
revoked. What is held: every job says its place, and starts from the front of the queue; the owners' shares of the workers
are even; a job that needs a whole worker gets one within the time of two small ones; what a drained worker had goes on
elsewhere before it is stopped; every job completes.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.deployment import Site
from tests.support.patience import STOP_S, whole_deployment
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import start_program
from tests.support.small_install import small_python
from tests.system.service.scene import MODELS_PER_WORKER, N_WORKERS, ROOM, Scene, User, full, job

from warren import AuthenticationError, Client
from warren_schemas.events import RunState
from warren_schemas.http import RunView, WorkerView

pytestmark = [pytest.mark.tour, whole_deployment]

STEPS = 8
FULL_AT = {"ann": (2, 7), "bob": (4,)}
"""Which of their jobs train all weights."""
N_JOBS = {"ann": 12, "bob": 11}
LOOK_S = 0.2
EVEN = 0.2
SLACK_S = 10.0
"""For heartbeats and the opening of a model, on a machine with other things to do."""

SUBMIT = """
import json, sys, warren
with warren.sync.connect() as client:
    for config in json.load(sys.stdin):
        print(client.train(config).id, flush=True)
"""


@dataclass
class Watch:
    """What an admin sees, look by look."""

    held: Counter[str] = field(default_factory=Counter[str])
    """Places times milliseconds that each owner held while both had jobs waiting."""
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    """The last number that was shown of each run before it started."""
    first_s: dict[str, float] = field(default_factory=dict[str, float])
    """When each was the first to be number 1."""
    looked_s: float = 0.0

    def look(self, views: list[RunView], now_s: float) -> None:
        waiting = [view for view in views if view.queue]
        for view in waiting:
            assert view.queue
            ahead = view.queue.n_ahead_own + view.queue.n_ahead_others
            assert view.queue.number == ahead + 1, view.queue
            assert view.queue.reason
            self.numbers[view.id] = view.queue.number
            if view.queue.number == 1:
                self.first_s.setdefault(view.id, time.time())
        if len({view.owner for view in waiting}) == len(N_JOBS) and self.looked_s:
            for view in views:
                if view.state in (RunState.STARTING, RunState.RUNNING, RunState.FINISHING):
                    self.held[view.owner] += int(1000 * places(view) * (now_s - self.looked_s))
        self.looked_s = now_s


def places(view: RunView) -> int:
    return MODELS_PER_WORKER if is_full(view) else 1


def is_full(view: RunView) -> bool:
    return view.config is not None and view.config.model.update.kind == "full"


@pytest.fixture
async def scene(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[Scene]:
    (tmp_path / "home").mkdir()
    scene = Scene(Site(tmp_path / "home", private_rabbit.url, None), tmp_path)
    try:
        await scene.begin()
        yield scene
    finally:
        await asyncio.to_thread(scene.site.stop)


def jobs_of(name: str) -> list[dict[str, object]]:
    make: list[Callable[[str, int], dict[str, object]]] = [
        full if number in FULL_AT[name] else job for number in range(N_JOBS[name])
    ]
    return [one(f"{name}-{number}", STEPS) for number, one in enumerate(make)]


async def submit(user: User) -> list[str]:
    """From their laptop; the ids of the runs."""
    process = await start_program(
        *small_python(SUBMIT),
        environment={"WARREN_URL": user.url, "WARREN_API_KEY": user.key, "HOME": str(user.folder)},
        folder=user.folder, stdin=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate(json.dumps(jobs_of(user.name)).encode())
    assert process.returncode == 0, err.decode()
    return out.decode().split()


async def test_two_tenants_share_two_gpu_workers(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    ann, bob = await scene.new_user("ann"), await scene.new_user("bob")
    made = await bob.read("keys", "create", "laptop")
    laptop = User("bob", bob.url, str(made["key"]), bob.folder)
    submitted = await asyncio.gather(submit(ann), submit(laptop))
    watch, n = Watch(), sum(map(len, submitted))
    assert n == sum(N_JOBS.values())
    async with scene.admin.client() as admin:
        await watch_until(admin, watch, is_over(n // 4))
        await bob.type("keys", "revoke", laptop.key.split("_")[1])
        async with laptop.client() as refused:
            with pytest.raises(AuthenticationError):
                await refused.runs()
        await scene.site.kill("gpu-2")
        scene.start_gpu_worker("gpu-2")
        await drain_one(scene, admin, watch)
        views = await watch_until(admin, watch, is_over(n))
    assert {view.id for view in views} == {run for runs in submitted for run in runs}
    with capsys.disabled():
        report(watch, views)
    assert {view.state for view in views} == {RunState.COMPLETED}
    check_places(watch, views)
    check_whole_workers(watch, views)
    check_shares(watch, views)
    assert "bob" in await scene.admin.type("usage")


async def watch_until(
    admin: Client, watch: Watch, is_done: Callable[[list[RunView]], Awaitable[bool]]
) -> list[RunView]:
    while True:
        views = [run.view for run in await admin.runs()]
        watch.look(views, time.monotonic())
        if await is_done(views):
            return views
        await asyncio.sleep(LOOK_S)


def is_over(n: int) -> Callable[[list[RunView]], Awaitable[bool]]:
    """Whether so many have ended."""

    async def are_over(views: list[RunView]) -> bool:
        return sum(view.state.is_final for view in views) >= n

    return are_over


async def drain_one(scene: Scene, admin: Client, watch: Watch) -> None:
    """Once no job waits for a whole worker: one with small jobs loses them, is stopped, and another takes its place."""
    has_small: list[WorkerView] = []

    async def is_time(views: list[RunView]) -> bool:
        trainers = [worker for worker in await admin.workers() if worker.role == "trainer"]
        has_small[:] = [w for w in trainers if w.models and w.capacity == MODELS_PER_WORKER]
        assert not all(view.state.is_final for view in views), "nobody is left to be drained"
        return all(view.started_s for view in views if is_full(view)) and bool(has_small)

    await watch_until(admin, watch, is_time)
    pid = has_small[0].pid
    ours = {worker.id for worker in await admin.workers() if worker.pid == pid}
    for worker in ours:
        await scene.admin.type("workers", "drain", worker)

    async def are_empty(_: list[RunView]) -> bool:
        workers = [worker for worker in await admin.workers() if worker.id in ours]
        assert len(workers) == len(ours)
        return all(w.is_draining and not w.in_flight and not w.models for w in workers)

    await watch_until(admin, watch, are_empty)
    (name,) = [name for name, one in scene.site.processes.items() if one.pid == pid]
    scene.site.processes[name].terminate()
    assert await asyncio.to_thread(scene.site.processes[name].wait, STOP_S) == 0
    scene.start_gpu_worker(name)


def took_s(view: RunView) -> float:
    return (view.ended_s or 0.0) - (view.started_s or 0.0)


def waits_s(watch: Watch, views: list[RunView]) -> dict[str, float]:
    """Of each job that needs a whole worker: from when it was next until it started."""
    return {
        view.name: (view.started_s or 0.0) - watch.first_s.get(view.id, view.started_s or 0.0)
        for view in views
        if is_full(view)
    }


def check_places(watch: Watch, views: list[RunView]) -> None:
    """What started was among the next that were shown."""
    late = {view.name: watch.numbers.get(view.id, 1) for view in views if not is_full(view)}
    assert all(number <= ROOM for number in late.values()), late


def check_shares(watch: Watch, views: list[RunView]) -> None:
    """Even within `EVEN`, and no evener than one job on each worker can make them: none is taken away for
    fairness, and one that lost its trainer comes back before all others, whoever has more."""
    largest = max(int(1000 * places(view) * took_s(view)) for view in views)
    apart = abs(watch.held["ann"] - watch.held["bob"])
    assert apart <= EVEN * max(watch.held.values()) + N_WORKERS * largest, watch.held


def check_whole_workers(watch: Watch, views: list[RunView]) -> None:
    small_s = max(took_s(view) for view in views if not is_full(view))
    waited = waits_s(watch, views)
    assert all(wait_s <= 2 * small_s + SLACK_S for wait_s in waited.values()), (waited, small_s)


def report(watch: Watch, views: list[RunView]) -> None:
    small = sorted(took_s(view) for view in views if not is_full(view))
    total = sum(watch.held.values()) or 1
    shares = ", ".join(f"{name} {held / total:.0%}" for name, held in sorted(watch.held.items()))
    waits = ", ".join(f"{name} {wait_s:.1f} s" for name, wait_s in waits_s(watch, views).items())
    spent_s = max(view.ended_s or 0.0 for view in views) - min(view.created_s for view in views)
    print(
        f"\n{len(views)} jobs in {spent_s:.0f} s; a small one took {small[0]:.1f} to {small[-1]:.1f} s"
    )
    print(f"shares while both waited: {shares}")
    print(f"a whole worker, from when the job was next: {waits}")
