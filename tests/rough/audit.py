# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
"""What anybody with a key can see of a run, held against itself: SDK, CLI, exports and TensorBoard files.

Raises `AssertionError` where the public record counts something twice, misses it, or says of one ending what
became of another.
"""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.support.deployment import Site

from warren import Client, Run
from warren_schemas.episode import Completed
from warren_schemas.events import Phase, RunState, StepCompleted
from warren_schemas.http import TrajectoryView

USED = ("trained", "evaluated", "stale")
UNUSED = ("failed", "abandoned")


@dataclass(frozen=True, slots=True)
class Audit:
    n_episodes: int
    n_endings: int
    n_steps: int
    fates: dict[str, int]

    def __str__(self) -> str:
        return (
            f"{self.n_episodes} episodes once each, of {self.n_endings} recorded endings;"
            f" {self.n_steps} steps once each; fates {self.fates}"
        )


async def audit(site: Site, client: Client, run: Run, *, n_steps: int, folder: Path) -> Audit:
    view = await run.refresh()
    assert view.state is RunState.COMPLETED, view.error
    once = [view async for view in run.trajectories()]
    everything = [view async for view in run.trajectories(all_attempts=True)]
    _check_episodes(once, everything)
    await _check_resuming(run, once)
    await _check_export(site, run, once, folder / f"{run.id}.jsonl")
    await _check_steps(run, n_steps)
    await asyncio.to_thread(_check_curves, site.home, n_steps)
    fates = Counter(view.fate or "none" for view in everything)
    return Audit(len(once), len(everything), n_steps, dict(fates))


def _check_episodes(once: list[TrajectoryView], everything: list[TrajectoryView]) -> None:
    names = Counter((v.trajectory.spec.group, v.trajectory.spec.member) for v in once)
    assert not (doubled := [name for name, n in names.items() if n > 1]), f"twice: {doubled[:5]}"
    for one in once:
        assert one.fate in (*USED, *UNUSED), f"{one.offset}: {one.fate}"
        if not isinstance(one.trajectory.outcome, Completed):
            assert one.fate == "failed", f"a failed ending at {one.offset} is said to be {one.fate}"
    shown = {one.offset for one in once}
    for one in everything:
        is_said = one.fate in (*USED, *UNUSED)
        assert is_said == (one.offset in shown), f"{one.offset} ({one.fate}) is in one view only"


async def _check_resuming(run: Run, once: list[TrajectoryView]) -> None:
    """Whoever goes on in the middle is told nothing twice."""
    middle = once[len(once) // 2].offset
    rest = [view.offset async for view in run.trajectories(from_=middle + 1)]
    assert rest == [view.offset for view in once if view.offset > middle]


async def _check_export(site: Site, run: Run, once: list[TrajectoryView], path: Path) -> None:
    key = (site.home / "api-key").read_text().strip()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warren", "trajectories", run.id, "--to", str(path),
        "--url", site.url, "--api-key", key,
    )  # fmt: skip
    assert await process.wait() == 0
    text = await asyncio.to_thread(path.read_text)
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["fate"] for row in rows] == [view.fate for view in once]
    assert len({row["episode"] for row in rows}) == len(rows)


async def _check_steps(run: Run, n_steps: int) -> None:
    """In the metrics and in the events."""
    rows = await run.metrics().to_list()
    numbers = [row.step for row in rows if row.phase is Phase.TRAINING]
    assert numbers == list(range(1, n_steps + 1)), f"steps of the metrics: {numbers}"
    told = [event.body async for event in run.events()]
    steps = [b.step for b in told if isinstance(b, StepCompleted) and b.phase is Phase.TRAINING]
    assert steps == numbers, f"steps of the events: {steps}"


def _check_curves(home: Path, n_steps: int) -> None:
    """In the TensorBoard files that the gateway writes."""
    folders = {path.parent for path in home.rglob("events.out.tfevents.*")}
    curves = [_steps(folder, "1_reward/mean") for folder in sorted(folders)]
    written = [steps for steps in curves if steps]
    assert written == [list(range(1, n_steps + 1))], f"steps of the curves: {written}"


def _steps(folder: Path, tag: str) -> list[int]:
    accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    accumulator.Reload()
    if tag not in cast("list[str]", accumulator.Tags()["scalars"]):
        return []
    return sorted(point.step for point in accumulator.Scalars(tag))
