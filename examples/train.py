"""Train from Python: submit a run, watch it, use its result.

warren up                     # in one terminal
python examples/train.py      # in another
"""

import asyncio
from pathlib import Path

import warren
from warren_schemas.events import EvaluationCompleted, StepCompleted

CONFIG = Path(__file__).with_name("guess.yaml")


async def main() -> None:
    async with warren.connect() as client:
        run = await client.train(CONFIG)  # or a dict, or a warren.TrainConfig
        print(f"{run.id} is submitted; it goes on if this program stops")
        async for event in run.events():
            match event.body:
                case StepCompleted(step=step, metrics=metrics) if step % 50 == 0:
                    print(f"step {step}: reward {metrics.get('reward/mean', 0.0):.3f}")
                case EvaluationCompleted(when=when, reward_mean=reward):
                    print(f"evaluation {when}: reward {reward:.3f}")
                case _:
                    pass
        result = await run.result()  # raises RunFailed or RunCancelled with the reason
        print(f"from {result.reward_before} to {result.reward_after}; weights: {result.policy_url}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except warren.WarrenError as error:
        raise SystemExit(str(error)) from error
