"""Warren's side: every part, on the in-process broker, as `warren up` starts them.

One process holds gateway, the supervisors of the workers, and the client that follows the run; the
sampler, the trainer and the environments are its children. All of them count.
"""

import argparse
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from benchmarks.episodes import recipe, task
from benchmarks.episodes.meter import Reading
from benchmarks.episodes.recipe import Figures

from warren.client import connect
from warren.run import Run
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import (
    AdvantageKind,
    AlgorithmConfig,
    EnvironmentConfig,
    FullUpdate,
    LimitsConfig,
    ModelConfig,
    OptimizerConfig,
    PpoLoss,
    Sampling,
    SftConfig,
    TrainConfig,
)
from warren_schemas.events import Phase, StepCompleted
from warren_up.demo import free_port
from warren_up.process import run as run_in_loop
from warren_up.site import Site, running
from warren_up.start_view import Unheard

ENVIRONMENTS = "benchmarks.episodes.reverse_env"
_WINDOW_STEPS = recipe.REWARD_WINDOW // recipe.EPISODES_PER_STEP


def config(n_steps: int, seed: int) -> TrainConfig:
    return TrainConfig(
        name="reverse",
        model=ModelConfig(base="warren/tiny", update=FullUpdate()),
        environments=(EnvironmentConfig(name="reverse"),),
        sampling=Sampling(temperature=1.0, max_tokens=task.MAX_TOKENS),
        algorithm=AlgorithmConfig(
            loss=PpoLoss(clip_low=recipe.CLIP_LOW, clip_high=recipe.CLIP_HIGH),
            advantage=AdvantageKind.GROUP_STD,
            group_size=recipe.GROUP_SIZE,
            groups_per_step=recipe.GROUPS_PER_STEP,
            max_staleness=recipe.STEPS_PER_ROUND - 1,
        ),
        optimizer=OptimizerConfig(
            learning_rate=recipe.LEARNING_RATE,
            warmup_steps=recipe.RISE_STEPS,
            beta1=recipe.BETA1,
            beta2=recipe.BETA2,
            eps=recipe.EPS,
            clip_norm=recipe.CLIP_NORM,
        ),
        sft=SftConfig(
            steps=recipe.WARMUP_STEPS,
            episodes_per_step=recipe.WARMUP_EPISODES,
            learning_rate=recipe.WARMUP_LEARNING_RATE,
        ),
        limits=LimitsConfig(steps=n_steps),
        seed=seed,
    )


async def measure(site: Site, n_samples: int, seed: int) -> Figures:
    n_steps = n_samples // recipe.EPISODES_PER_STEP
    async with (
        running(site, Unheard()),
        connect(site.url, site.key_file.read_text().strip()) as client,
    ):
        run = await client.train(config(n_steps, seed))
        figures = await _watched(run)
        await run.result()
        return figures


async def _watched(run: Run) -> Figures:
    """From the end of the first round of optimizer steps to the end of the last one."""
    marks: list[tuple[Reading, int]] = []
    last: deque[StepCompleted] = deque(maxlen=_WINDOW_STEPS)
    async for event in run.events():
        body = event.body
        if isinstance(body, StepCompleted) and body.phase is Phase.TRAINING:
            last.append(body)
            if body.step in (recipe.STEPS_PER_ROUND, body.n_steps):
                marks.append((Reading.now(), body.n_episodes))
    (first, n_before), (end, n_after) = marks
    return Figures(
        n_samples=n_after - n_before,
        cpu_s=end.cpu_s - first.cpu_s,
        wall_s=end.wall_s - first.wall_s,
        reward=_mean(last, "reward/mean"),
        exact=_mean(last, "env/exact"),
        hosts_cpu_s=end.hosts_cpu_s - first.hosts_cpu_s,
    )


def _mean(steps: Sequence[StepCompleted], tag: str) -> float:
    return sum(step.metrics[tag] for step in steps) / len(steps)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.episodes.warren_side", description=__doc__)
    parser.add_argument("--samples", type=int, default=51_200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shared", action="store_true", help='isolation = "shared"')
    options = parser.parse_args()
    name = "SharedReverse" if options.shared else "Reverse"
    with tempfile.TemporaryDirectory(prefix="warren-benchmark-") as home:
        environments = EnvWorkerSettings(environments=(f"{ENVIRONMENTS}:{name}",))
        site = Site(Path(home), free_port(), env_options=environments)
        figures = run_in_loop(lambda: measure(site, options.samples, options.seed), site)
    print(figures.to_line(), flush=True)


if __name__ == "__main__":
    main()
