"""What travels: a `Step` with its transcript, and the `Generate` that answers it.

A transcript of 256 tokens is a short episode: a few turns of the guessing game, one question of a
dataset. `WARREN_BENCHMARK_TOKENS` sets another length.
"""

import os

from tests.support.items import generate, step

from warren_schemas.episode import Generate, Step

MAX_IN_FLIGHT = 1024
N_TOKENS = int(os.environ.get("WARREN_BENCHMARK_TOKENS", "256"))
STEPS = [step(f"{number}", n_tokens=N_TOKENS) for number in range(MAX_IN_FLIGHT)]
GENERATE = generate(n_tokens=N_TOKENS)


def numbered(episode: int, turn: int) -> Step:
    """The step of this episode at this turn, made as a sampler makes it."""
    template = STEPS[episode]
    return Step(
        envelope=template.envelope,
        spec=template.spec,
        transcript=template.transcript,
        turn=turn,
        finish=template.finish,
    )


def answer_to(taken: Step) -> Generate:
    """The next turn, made as an env worker makes it."""
    return Generate(
        envelope=taken.envelope,
        spec=taken.spec,
        transcript=GENERATE.transcript,
        turn=taken.turn,
        home="env_1",
    )
