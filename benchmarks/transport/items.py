"""What travels: a `Step` with its transcript, and the `Generate` that answers it.

An item of 16 tokens takes about 1 KB, most of it what every item carries (envelope, spec, messages).
From the second turn of an episode on, the codec knows its spec, as in a run; HTTP validates it anew.
`WARREN_BENCHMARK_TOKENS` sets another length; every transport then pays for the bytes.
"""

import os

from tests.support.items import SPEC, generate, step

from warren_schemas.episode import Generate, Step

MAX_IN_FLIGHT = 1024
N_TOKENS = int(os.environ.get("WARREN_BENCHMARK_TOKENS", "16"))
SPECS = [SPEC.model_copy(update={"member": n, "seed": n}) for n in range(MAX_IN_FLIGHT)]
"""Each episode has a spec of its own, the same in all its turns."""
STEPS = [
    step(f"{number}", n_tokens=N_TOKENS).model_copy(update={"spec": spec})
    for number, spec in enumerate(SPECS)
]
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
