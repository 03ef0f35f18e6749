"""What a transcript says of all its branches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warren_schemas.images import Image
from warren_schemas.transcript import NO_TOKENS, Branch, ChatMessage, Transcript

PICTURE = Image.of(b"\xff\xd8\xff and so on")
MESSAGES = st.lists(
    st.builds(
        ChatMessage,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=st.text(st.characters(codec="utf-8")) | st.text('\x00\x1f"\\é€😀'),
        images=st.sampled_from([(), (PICTURE,)]),
        is_quoted=st.booleans(),
    ),
    max_size=4,
).map(tuple)
TOKENS = st.integers(0, 3).map(lambda n: NO_TOKENS.prompted(range(n)))


def branch(number: int, messages: tuple[ChatMessage, ...]) -> Branch:
    return Branch(number=number, messages=messages, n_rendered=0, tokens=NO_TOKENS.prompted([7]))


@st.composite
def transcripts(draw: st.DrawFn) -> Transcript:
    aside = [branch(number, draw(MESSAGES)) for number in range(draw(st.integers(0, 2)))]
    return Transcript(
        messages=draw(MESSAGES), tokens=draw(TOKENS), branch=len(aside), set_aside=tuple(aside)
    )


@given(transcripts())
def test_what_is_cheap_to_say_is_no_less_than_what_it_weighs(transcript: Transcript) -> None:
    assert transcript.most_bytes >= transcript.size_bytes


@given(transcripts())
def test_sums_are_those_of_the_branches(transcript: Transcript) -> None:
    messages = [m for each in transcript.branches for m in each.messages]
    assert transcript.n_chars == sum(m.n_chars for m in messages)
    assert transcript.n_actions == sum(m.is_action for m in messages)
    n_bytes = sum(m.size_bytes for m in messages)
    assert transcript.size_bytes == n_bytes + sum(
        int(
            np.sum(
                [
                    getattr(tokens, name).nbytes
                    for name in ("ids_T", "mask_T", "logprobs_T", "versions_T")
                ]
            )
        )
        for tokens in transcript.sequences
    )
