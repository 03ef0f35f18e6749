"""`warren demo`: everything from nothing to a trained model, in one command.

A fresh site in a folder of its own, one run, a comparison of the policy before and after, and as the
very last line of output one JSON object with the figures, for programs.
"""

import json
import resource
import socket
import time

from warren.client import connect
from warren.display.output import Output
from warren.display.watching import make_view, watch
from warren.display.words import decimal, duration
from warren.ending import outcome
from warren.run import Run
from warren_schemas.config import TrainConfig
from warren_schemas.http import RunResult
from warren_up.site import Site
from warren_up.start_view import StartView
from warren_up.up import shown

UNIFORM_REWARD = 0.345
"""What uniformly random guessing scores."""
CONSISTENT_REWARD = 0.763
"""What guessing at random among the digits that the hints leave scores."""


async def play(site: Site, config: TrainConfig, output: Output) -> RunResult:
    """Start the site, train, stop the site; the result of the run.

    Raises `RunFailed`, and `WarrenError` where a part can't start.
    """
    _announce(site, config, output)
    view = StartView(output)
    view.open()
    async with shown(site, view):
        output.line()
        api_key = site.key_file.read_text().strip()
        async with connect(site.url, api_key) as client:
            run = await client.train(config)
            await watch(run, client.queues, make_view(output, as_json=False))
            await run.refresh()
    return _finished(run, output)


def _finished(run: Run, output: Output) -> RunResult:
    result = outcome(run.view)
    _compare(result, output)
    return result


def figures(result: RunResult, started_s: float) -> str:
    """The last line: what was reached, and what it cost in all processes, children included."""
    return json.dumps(
        {
            "reward_before": result.reward_before,
            "reward_after": result.reward_after,
            "episodes": result.episodes,
            "updates": result.updates,
            "tokens": result.tokens,
            "wall_s": round(time.time() - started_s, 1),
            "cpu_s": round(_cpu_s(), 1),
            "max_staleness_seen": result.max_staleness_seen,
        }
    )


def free_port() -> int:
    """A port that nobody but this process will be given as long as it runs.

    A socket keeps it that never listens. One that says `SO_REUSEADDR`, as every server does, may
    listen there beside it; the system gives the port to nobody who asks for any.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port = int(reserved.getsockname()[1])
    reserved.detach()  # nobody closes it before the process ends
    return port


def _cpu_s() -> float:
    """Seconds of CPU of this process and of every child that has ended and was waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _announce(site: Site, config: TrainConfig, output: Output) -> None:
    output.line("Warren demo: a tiny language model learns to guess a number", "bold")
    output.line(
        "  The environment hides a digit and answers each guess with < or >; four guesses, reward 1"
        " for finding it."
    )
    output.line(
        f"  Model {config.model.base}, {config.limits.steps} steps of"
        f" {config.algorithm.groups_per_step} x {config.algorithm.group_size} episodes, seed"
        f" {config.seed}. Files in {site.home}"
    )
    output.line()


def _compare(result: RunResult, output: Output) -> None:
    output.line()
    output.line("Greedy play on fresh episodes", "bold")
    for label, reward, style in (
        ("before", result.reward_before, ""),
        ("after", result.reward_after, "bold green"),
        ("uniform guessing", UNIFORM_REWARD, "dim"),
        ("guessing by the hints", CONSISTENT_REWARD, "dim"),
    ):
        output.line(f"  {label.ljust(22)} {_bar(reward)}", style)
    output.line()
    output.line(
        f"{result.episodes:,} episodes, {result.updates:,} updates, {result.tokens:,} tokens"
        f" in {duration(result.wall_s)}; most stale episode: {result.max_staleness_seen} updates"
    )
    output.line(f"Look at the curves:  tensorboard --logdir {result.log_dir}")
    output.line()


def _bar(reward: float | None, width: int = 30) -> str:
    filled = round(max(0.0, min(1.0, reward or 0.0)) * width)
    return f"{decimal(reward)}  {'█' * filled}{'░' * (width - filled)}"
