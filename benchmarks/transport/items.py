"""What travels: a `Step` with its transcript, and the `Generate` that answers it.

An item of 16 tokens takes about 1 KB, most of it what every item carries (envelope, spec, messages).
`WARREN_BENCHMARK_TOKENS` sets another length; every transport then pays for the bytes.
"""

import os

from tests.support.items import generate, step

from warren_schemas.episode import Generate, Step

MAX_IN_FLIGHT = 1024
N_TOKENS = int(os.environ.get("WARREN_BENCHMARK_TOKENS", "16"))
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
