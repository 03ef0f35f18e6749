"""What is remembered of episodes that are over, and for how many bytes."""

import numpy as np
from numpy.typing import NDArray
from tests.support.factories import make_tokens
from tests.support.interacting import RUN, spec, start

from warren_env_worker.finished_episodes import FinishedEpisodes
from warren_env_worker.interaction import Interaction
from warren_env_worker.successor import Origin, Successor, end
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.ids import EpisodeId, WorkerId
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import ChatMessage, Tokens, Transcript

N_TOKENS = 100


def ended(number: int, words: str = "") -> Interaction:
    """An episode of which the tokens lie in a message with those of many others."""
    crowd, part = make_tokens(64 * N_TOKENS), slice(N_TOKENS)
    tokens = Tokens.model_construct(
        ids_T=crowd.ids_T[part],
        mask_T=crowd.mask_T[part],
        logprobs_T=crowd.logprobs_T[part],
        versions_T=crowd.versions_T[part],
        sampling_mask=SamplingMask.model_construct(
            sizes_N=np.ones(crowd.ids_T.size, np.int32)[part], ids_S=crowd.ids_T[part]
        ),
    )
    messages = (ChatMessage(role="user", content=words),)
    transcript = Transcript.model_construct(
        messages=messages, n_rendered=1, tokens=tokens, reset_digest="", turns=()
    )
    taken = start(f"ep_{number}", spec())
    interaction = Interaction.begin(taken, slot=number)
    by = Origin(WorkerId("env_1"), started_s=0.0)
    interaction.successor = end(taken, Completed(reward=1.0), by, transcript=transcript)
    return interaction


def arrays_of(tokens: Tokens) -> list[NDArray[np.generic]]:
    mask = tokens.sampling_mask
    own: list[NDArray[np.generic]] = [
        tokens.ids_T, tokens.mask_T, tokens.logprobs_T, tokens.versions_T
    ]  # fmt: skip
    return own if mask is None else [*own, mask.sizes_N, mask.ids_S]


def successor_of(interaction: Interaction | None) -> Successor:
    assert interaction is not None
    assert interaction.successor is not None
    return interaction.successor


def test_what_is_remembered_keeps_no_message_alive() -> None:
    finished = FinishedEpisodes()
    before = ended(1)
    finished.add(before)
    item, expected = successor_of(finished.get(EpisodeId("ep_1"))).item, successor_of(before).item
    assert isinstance(item, EpisodeEnded)
    assert isinstance(expected, EpisodeEnded)
    kept, given = arrays_of(item.transcript.tokens), arrays_of(expected.transcript.tokens)
    assert len(kept) == 6
    for array, before_array in zip(kept, given, strict=True):
        assert array.base is None
        assert np.array_equal(array, before_array)
    assert item.outcome == expected.outcome


def test_the_oldest_are_forgotten_where_the_bytes_run_out() -> None:
    finished = FinishedEpisodes(max_bytes=10_000)
    for number in range(8):
        finished.add(ended(number))
    assert finished.size_bytes <= 10_000
    assert finished.get(EpisodeId("ep_0")) is None
    finished.add(ended(9, "w" * 7_000))
    assert finished.get(EpisodeId("ep_7")) is None
    assert finished.get(EpisodeId("ep_9"))
    finished.forget_run(RUN)
    assert finished.size_bytes == 0
