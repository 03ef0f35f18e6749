"""Sampling masks: what is refused, what travels, what they come to turn by turn."""

import numpy as np
import pytest
from pydantic import ValidationError
from tests.support.factories import make_step, make_tokens, make_transcript

from warren_schemas.codec.wire import decode, encode
from warren_schemas.config import Sampling, TrainConfig
from warren_schemas.episode import Step
from warren_schemas.errors import ConfigurationError
from warren_schemas.fields.limits import MAX_KEPT
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.token_batch import TokenBatch

PLAIN = make_tokens(4)
"""Of which the last two are sampled."""


def mask_of(*sets: list[int]) -> SamplingMask:
    return SamplingMask.of([np.array(ids, np.int32) for ids in sets])


def own(index: int) -> int:
    return int(PLAIN.ids_T[index])


GOOD = mask_of([], [], [own(2), 9], [7, own(3), 8])


def test_a_mask_travels_with_its_tokens() -> None:
    tokens = make_tokens(4, sampling_mask=GOOD)
    [item, plain] = decode(
        encode([make_step(transcript=make_transcript(tokens=t)) for t in (tokens, PLAIN)])
    ).items
    assert isinstance(item, Step) and isinstance(plain, Step)
    found = item.transcript.tokens.sampling_mask
    assert found is not None and plain.transcript.tokens.sampling_mask is None
    assert found.sizes_N.tolist() == [0, 0, 2, 3]
    assert found.ids_S.tolist() == [own(2), 9, 7, own(3), 8]
    assert item.transcript.tokens.has_every_mask and not plain.transcript.tokens.has_every_mask
    assert item.transcript.tokens.size_bytes == plain.transcript.tokens.size_bytes + 9 * 4


@pytest.mark.parametrize(
    ("mask", "hint"),
    [
        (mask_of([], [own(2)], [own(3)]), "4 ids, 3 sampling masks"),
        (mask_of([], [], [9], [own(3)]), "a token is not in the sampling mask"),
        (mask_of([], [], [own(2), own(2)], [own(3)]), "or is there twice"),
        (mask_of([], [], [own(2)], list(range(MAX_KEPT + 1))), "sizes of 0 to 256"),
        (
            SamplingMask.model_construct(sizes_N=GOOD.sizes_N, ids_S=GOOD.ids_S[:-1]),
            "the sizes add up to 5, and there are 4 ids",
        ),
    ],
)
def test_a_mask_that_is_not_of_these_tokens_is_refused(mask: SamplingMask, hint: str) -> None:
    tokens = PLAIN.model_copy(update={"sampling_mask": mask})
    transcript = make_transcript().model_copy(update={"tokens": tokens})
    decoded = decode(encode([make_step().model_copy(update={"transcript": transcript})]))
    assert decoded.items == []
    assert hint in decoded.rejected[0].reason


def test_in_a_batch_all_tokens_that_count_have_a_mask_or_none() -> None:
    fields: dict[str, object] = {
        "ids_N": [1, 2, 3], "lengths_B": [3], "mask_N": [0, 1, 1], "logprobs_N": [0, -1, -1],
        "weights_N": [0, 1, 1], "sampling_mask": {"sizes_N": [0, 1, 0], "ids_S": [2]},
    }  # fmt: skip
    with pytest.raises(ValidationError, match="and others don't"):
        TokenBatch.model_validate(fields)
    TokenBatch.model_validate(fields | {"mask_N": [0, 1, 0]})


def test_masks_grow_and_are_joined_as_sequences_are() -> None:
    grown = SamplingMask.none(2).extended(1, mask_of([4, 5], [6]))
    assert grown.sizes_N.tolist() == [0, 0, 0, 2, 1]
    both = SamplingMask.joined([grown, grown])
    assert both.sizes_N.tolist() == [0, 0, 0, 2, 1] * 2
    assert both.ids_S.tolist() == [4, 5, 6] * 2
    assert both.starts_N.tolist() == [0, 0, 0, 0, 2, 3, 3, 3, 3, 5]


@pytest.mark.parametrize(
    ("settings", "is_truncated"),
    [
        ({}, False),
        ({"repetition_penalty": 1.3, "temperature": 0.7}, False),
        ({"top_p": 0.9}, True),
        ({"top_k": 5}, True),
        ({"min_p": 0.1}, True),
        ({"min_p": 0.1, "temperature": 0.0}, False),
    ],
)
def test_which_settings_truncate(settings: dict[str, float], is_truncated: bool) -> None:
    assert Sampling.model_validate(settings).is_truncated is is_truncated


@pytest.mark.parametrize("where", ["sampling", "environments.0.sampling"])
def test_more_tokens_than_a_mask_may_have_are_refused_where_the_config_is_read(where: str) -> None:
    def config(top_k: int) -> TrainConfig:
        sampling = {"top_k": top_k}
        environment = {"name": "guess"}
        if where == "sampling":
            return TrainConfig.model_validate(
                {"model": {"base": "b"}, "environments": [environment], "sampling": sampling}
            )
        return TrainConfig.model_validate(
            {"model": {"base": "b"}, "environments": [environment | {"sampling": sampling}]}
        )

    assert config(MAX_KEPT)
    with pytest.raises(
        (ValidationError, ConfigurationError), match=rf"{where}.top_k: 257 is above"
    ):
        config(MAX_KEPT + 1)
