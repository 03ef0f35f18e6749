"""A day of 10,000 jobs of 50 users on 32 workers, by shares and by FIFO alone."""

from collections.abc import Sequence
from statistics import mean, median

from benchmarks.scheduling.site import DAY_S, N_USERS, N_WORKERS, Site, submissions

LEAST_CONTENDED_S = 3600.0


def measure(seed: int) -> None:
    asked = submissions(seed)
    weights = {f"user{n:02}": 2.0 if n % 5 == 4 else 1.0 for n in range(N_USERS)}
    shares, fifo = Site(asked, weights, True), Site(asked, weights, False)
    figures: list[list[tuple[str, str]]] = []
    for site in (shares, fifo):
        site.play()
        figures.append(_figures(site))
    print("\n| a day | shares | FIFO |\n|---|---|---|")
    for (name, ours), (_, theirs) in zip(*figures, strict=True):
        print(f"| {name} | {ours} | {theirs} |")


def jain(values: Sequence[float]) -> float:
    """1 where all are equal, 1/n where one has everything (Jain, Chiu and Hawe, 1984)."""
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def _figures(site: Site) -> list[tuple[str, str]]:
    waits = {m: (at_s - site.asked[m].job.queued_s) / 60 for m, at_s in site.started_s.items()}
    of_user: dict[str, list[float]] = {}
    for model, wait in waits.items():
        of_user.setdefault(site.asked[model].job.owner, []).append(wait)
    means = {user: mean(ours) for user, ours in of_user.items()}
    by_demand = sorted(of_user, key=lambda user: len(of_user[user]))
    rates = [
        site.contended_gpu_s[user] / site.contended_s[user] / site.weights[user]
        for user in site.weights
        if site.contended_s[user] >= LEAST_CONTENDED_S
    ]
    full = sorted(wait for model, wait in waits.items() if site.asked[model].job.is_full)
    small = sorted(wait for model, wait in waits.items() if not site.asked[model].job.is_full)
    return [
        (
            f"Jain's index of weighted GPUs while jobs wait ({len(rates)} users)",
            f"{jain(rates):.2f}",
        ),
        (
            "mean wait, min: the 40 users who ask least",
            f"{mean(means[u] for u in by_demand[:40]):.0f}",
        ),
        ("mean wait, min: the 10 who ask most", f"{mean(means[u] for u in by_demand[40:]):.0f}"),
        ("largest mean wait of a user, min", f"{max(means.values()):.0f}"),
        ("wait of LoRA jobs, min: p50, p99, max", _told(small)),
        ("wait of full jobs, min: p50, p99, max", _told(full)),
        ("GPU time in use", f"{100 * site.busy_gpu_s / (N_WORKERS * DAY_S):.0f} %"),
    ]


def _told(waits: Sequence[float]) -> str:
    return f"{median(waits):.0f}, {waits[int(0.99 * len(waits))]:.0f}, {waits[-1]:.0f}"
