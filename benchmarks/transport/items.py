"""What travels: a `Step` of an episode of 16 tokens, and the `Generate` that answers it."""

from tests.support.items import generate, step

from warren_schemas.episode import Generate, Step

MAX_IN_FLIGHT = 1024
STEPS = [step(f"{number}") for number in range(MAX_IN_FLIGHT)]
GENERATE = generate()


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
