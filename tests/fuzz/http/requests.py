"""schemathesis in rounds, each with a seed of its own, until there were as many requests as were wanted.

The last round always makes up scenarios.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

from tests.fuzz.http.deployment import Deployment

from warren_schemas.ids import RunId

HERE = Path(__file__).parent
COVERAGE_FROM = 5_000
"""The coverage phase alone is thousands of requests."""
REQUESTS_PER_EXAMPLE = 130
"""One of each operation, and a few of a scenario."""
LEAST_EXAMPLES, MOST_EXAMPLES = 12, 50
"""Of a round: scenarios come after everything else, and it takes minutes to make up many configs."""
LOOK_S = 2.0
TELL_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    phase: str
    status: int


@dataclass
class Asked:
    answers: list[Answer] = field(default_factory=list[Answer])
    n_failed_rounds: int = 0
    """Rounds in which schemathesis found something."""


async def ask(
    deployment: Deployment, program: Path, run: RunId, n_requests: int, seed: int
) -> Asked:
    """Up to the first round that fails. `run` is one that has ended, for requests that ask for one."""
    asked = Asked()
    rounds = chain(
        ["examples,coverage"] if n_requests >= COVERAGE_FROM else [], repeat("fuzzing,stateful")
    )
    with tempfile.TemporaryDirectory() as folder:
        place = _prepared(Path(folder), run)
        for number, phases in enumerate(rounds):
            n_missing = n_requests - len(asked.answers)
            n_examples = min(MOST_EXAMPLES, max(LEAST_EXAMPLES, n_missing // REQUESTS_PER_EXAMPLE))
            command = [
                str(program), "--config-file", "schemathesis.toml",
                "run", f"{deployment.url}/openapi.json", "--checks", "all", "--phases", phases,
                "--max-examples", str(n_examples), "--seed", str(seed + number), "--warnings", "off",
                "--workers", "1",  # CPython 3.11 fails where two threads parse Python at once, as hypothesis does
            ]  # fmt: skip
            asked.n_failed_rounds += await _round(deployment, command, place, run) != 0
            asked.answers = _answers(place)
            if asked.n_failed_rounds or (len(asked.answers) >= n_requests and "stateful" in phases):
                break
    return asked


def _prepared(place: Path, run: RunId) -> Path:
    for name in ("schemathesis.toml", "hooks.py"):
        shutil.copy(HERE / name, place)
    (place / "runs.txt").write_text(f'"{run}"\n')
    return place


async def _round(deployment: Deployment, command: list[str], place: Path, run: RunId) -> int:
    """The status with which schemathesis ended."""
    variables = {"WARREN_API_KEY": deployment.key, "ANSWERS": str(place / "answers")}
    process = await asyncio.create_subprocess_exec(*command, cwd=place, env=os.environ | variables)
    beside = [
        asyncio.create_task(_cancel_runs(deployment, run), name="cancel runs"),
        asyncio.create_task(_tell(place), name="tell"),
    ]
    try:
        return await process.wait()
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        if process.returncode is None:
            process.kill()
        await deployment.cancel_all(run)
        await deployment.undrain_all()


async def _cancel_runs(deployment: Deployment, kept: RunId) -> None:
    while True:
        await deployment.cancel_all(kept)
        await asyncio.sleep(LOOK_S)


async def _tell(place: Path) -> None:
    while True:
        await asyncio.sleep(TELL_S)
        answers = _answers(place)
        statuses = Counter(answer.status for answer in answers)
        print(f"  {len(answers):,} requests so far: {dict(sorted(statuses.items()))}", flush=True)


def _answers(place: Path) -> list[Answer]:
    """As `hooks.py` notes them, a line each."""
    with contextlib.suppress(FileNotFoundError):
        lines = (place / "answers").read_text().splitlines()
        return [Answer(phase, int(status)) for phase, status in map(str.split, lines)]
    return []
