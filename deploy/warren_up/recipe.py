"""The demo's run: a tiny model learns to guess a number from hints.

The recipe is R1: PPO-clipped updates at a learning rate that a 100,000-parameter model bears, one
short supervised fine-tuning that teaches the format only (random legal play), and greedy evaluation on
fresh episodes before and after. `examples/guess.yaml` says the same for people; a test compares.
"""

from warren_schemas.config import (
    AdvantageKind,
    AlgorithmConfig,
    EnvironmentConfig,
    EvaluationConfig,
    FullUpdate,
    LimitsConfig,
    ModelConfig,
    OptimizerConfig,
    PpoLoss,
    Sampling,
    SftConfig,
    TrainConfig,
)

STEPS = 1500
LEARNING_RATE = 1e-3
"""At 1.5e-3 a policy that samples three steps behind forgets the format for ten steps now and then."""
ENTROPY_COEFFICIENT = 0.05
"""Without it one run in five ended below 0.91, sure of guesses that leave numbers unfound."""


def guess_config(
    *, seed: int = 1, learning_rate: float = LEARNING_RATE, steps: int = STEPS
) -> TrainConfig:
    return TrainConfig(
        name="guess",
        model=ModelConfig(base="warren/tiny", update=FullUpdate()),
        environments=(EnvironmentConfig(name="guess"),),
        sampling=Sampling(temperature=1.0, max_tokens=4),
        algorithm=AlgorithmConfig(
            loss=PpoLoss(clip_low=0.8, clip_high=1.28),
            advantage=AdvantageKind.GROUP_STD,
            entropy_coefficient=ENTROPY_COEFFICIENT,
            group_size=8,
            groups_per_step=8,
            max_staleness=3,
        ),
        optimizer=OptimizerConfig(learning_rate=learning_rate, warmup_steps=20, clip_norm=1.0),
        sft=SftConfig(steps=150, episodes_per_step=32, learning_rate=1e-3),
        evaluation=EvaluationConfig(episodes=512, temperature=0.0),
        limits=LimitsConfig(steps=steps, stop_at_reward=0.95, episode_s=60.0),
        seed=seed,
    )
