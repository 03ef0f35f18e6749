"""Turns per second of long episodes at two samplers: any of them takes a turn, or the one before.

An episode's turn shows some new tokens and samples a few; its whole transcript is the prompt. Wherever
the transcript is cached, only what came since must be computed.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.sampler_queue.place import BASE, running
from rich.table import Table
from tests.support.engines import build_even_model, settings_for
from tests.support.episodes import (
    EnvironmentSide,
    environment_side,
    first_turn,
    next_turn,
    policy,
    user,
)

from warren_broker.memory import open_hub
from warren_gpu_worker.base_models import resolve_base_models
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import EngineName
from warren_schemas.config import Sampling
from warren_schemas.episode import Generate, Step
from warren_schemas.transcript import ChatMessage

N_SAMPLERS = 2
N_EPISODES = 24
"""Live at once."""
N_TURNS = 8
N_SHOWN = 400
"""Tokens that the environment shows at each turn."""
_SAMPLING = Sampling(max_tokens=8)
_CONTEXT_LENGTH = 4096
_LIMITS = {"max_batch": 16, "max_batch_tokens": 24 * _CONTEXT_LENGTH}
_START_S = 600.0


async def compare_affinity(name: EngineName, n_rounds: int) -> Table:
    table = Table("turns go to", "turns/s, each round", "median", ": any")
    async with _opened(name) as side:
        rounds: list[tuple[float, float]] = []
        for number in range(n_rounds):
            order = (False, True) if number % 2 else (True, False)
            rate = {returns: await _rate(side, returns) for returns in order}
            rounds.append((rate[False], rate[True]))
    apart, back = zip(*rounds, strict=True)
    table.add_row("any sampler", *_told(apart), "1.00")
    ratio = statistics.median(one / other for other, one in rounds)
    table.add_row("the one before", *_told(back), f"{ratio:.2f}")
    return table


def _told(rates: Sequence[float]) -> tuple[str, str]:
    return ", ".join(f"{rate:.1f}" for rate in rates), f"{statistics.median(rates):.1f}"


@asynccontextmanager
async def _opened(name: EngineName) -> AsyncGenerator[EnvironmentSide]:
    """Two samplers that have both answered."""
    with TemporaryDirectory() as home:
        folder = Path(home) / "model"
        like = resolve_base_models([BASE], Path(home))[BASE]
        build_even_model(folder, like, width=256, n_layers=4, context_length=_CONTEXT_LENGTH)
        settings = settings_for(
            name,
            str(folder),
            base_models={BASE: str(folder)},
            roles=frozenset({"sampler"}),
            **_LIMITS,
        )
        async with open_hub(Path(home) / "broker") as hub, environment_side(hub) as side:
            samplers = [serve_sampler(hub.client(f"{n}"), settings) for n in range(N_SAMPLERS)]
            async with running(*samplers):
                seen = set[str | None]()
                while len(seen) < N_SAMPLERS:
                    await side.send([first_turn(policy(BASE)) for _ in range(N_SAMPLERS)])
                    steps = await side.steps(N_SAMPLERS, timeout_s=_START_S)
                    seen |= {step.return_to for step in steps}
                yield side


async def _rate(side: EnvironmentSide, returns: bool) -> float:
    """Turns per second of new episodes, until all of them have ended."""
    rng = np.random.default_rng()
    acting = policy(BASE)
    started_s = time.perf_counter()
    for _ in range(N_EPISODES):  # one by one, so that both samplers get some
        await side.send([first_turn(acting, _shown(rng), sampling=_SAMPLING)])
    n_left = N_EPISODES
    while n_left:
        for step in await side.steps(1):
            n_left -= step.turn == N_TURNS
            if step.turn < N_TURNS:
                await _go_on(side, step, next_turn(step, _shown(rng)), returns)
    return N_EPISODES * N_TURNS / (time.perf_counter() - started_s)


async def _go_on(side: EnvironmentSide, step: Step, turn: Generate, returns: bool) -> None:
    if returns and step.return_to is not None:
        await side.send_back([turn], step.return_to)
    else:
        await side.send([turn])


def _shown(rng: np.random.Generator) -> ChatMessage:
    return user("".join(map(str, rng.integers(0, 10, N_SHOWN))))
