"""The ledger of jobs: nothing that was submitted is lost, and no job is at work twice.

What owners know that they submitted, what the store says became of it, and what the simulated trainers
wrote down are held together.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg
from tests.chaos.ledger import lines
from tests.chaos.plan import FREEZE_S
from tests.chaos.site import Site


@dataclass(frozen=True, slots=True)
class Stay:
    """A model at one trainer's child, in one epoch."""

    epoch: int
    first_s: float
    last_s: float
    """Of its ops, on the clock that nobody sets."""


@dataclass(frozen=True, slots=True)
class JobReport:
    n_jobs: int
    n_full: int
    n_stays: int
    """Epochs in which a trainer did something."""
    n_interrupted: int
    """Jobs that more than one of them had."""
    overlap_s: float
    """The longest time that a child worked on after the next one had begun, its supervisor frozen or cut off."""

    def __str__(self) -> str:
        return (
            f"{self.n_jobs} jobs ({self.n_full} full), {self.n_stays} stays at trainers,"
            f" {self.n_interrupted} jobs had more than one; an old holder worked on for"
            f" {self.overlap_s:.1f} s at most"
        )


def check_jobs(site: Site, submitted: Sequence[str]) -> JobReport:
    """Raises `AssertionError` where a job was lost, left, doubled or at work twice."""
    rows = _rows(site.store_url)
    assert len(set(submitted)) == len(submitted), "two submissions made one run"
    assert {run for run, *_ in rows} == set(submitted), (
        "runs that nobody submitted, or that are lost"
    )
    left = {
        run: (state, job) for run, state, job, *_ in rows if (state, job) != ("completed", "over")
    }
    assert not left, f"jobs without a good end: {left}"
    stays = [_stays_of(model, site.home / "ledger") for *_, model, _ in rows]
    overlaps = [max(a.last_s - b.first_s, 0.0) for one in stays for a, b in pairwise(one)]
    return JobReport(
        n_jobs=len(rows),
        n_full=sum(bool(is_full) for *_, is_full in rows),
        n_stays=sum(map(len, stays)),
        n_interrupted=sum(len(one) > 1 for one in stays),
        overlap_s=max(overlaps, default=0.0),
    )


def _rows(store_url: str) -> list[tuple[str, str, str, str, bool]]:
    query = (
        "SELECT run.id, run.state, job.state, job.model_id, job.is_full"
        " FROM run LEFT JOIN job ON job.run_id = run.id"
    )
    with psycopg.connect(store_url.replace("+psycopg", "")) as connection:
        return list(connection.execute(query).fetchall())


def _stays_of(model: str, ledgers: Path) -> list[Stay]:
    """By epoch. An epoch has one holder, which may work on for as long as its supervisor was frozen; one that was
    frozen before its first op may so do that after the next holder's, and what it answers counts for nothing."""
    times: dict[int, dict[Path, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path, line in lines(ledgers):
        if line["model"] == model:
            times[int(line["epoch"])][path].append(float(line["at_s"]))
    for epoch, holders in times.items():
        assert len(holders) == 1, f"{model} was at {len(holders)} trainers in epoch {epoch}"
    stays = [
        Stay(epoch, min(found), max(found))
        for epoch, holders in sorted(times.items())
        for found in holders.values()
    ]
    for older, newer in pairwise(stays):
        overlap_s = older.last_s - newer.first_s
        assert overlap_s < FREEZE_S, f"{model} was at work twice for {overlap_s:.1f} s"
    return stays
