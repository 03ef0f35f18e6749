"""What an answer can't tell of as many tokens as there are is refused, and what can be told fits into a message."""

from typing import Any

import numpy as np
import pytest
from tests.support.factories import make_step

from warren_gateway.tinker.answer_room import ROOM_BYTES
from warren_gateway.tinker.samples.answering import CantSample
from warren_gateway.tinker.sampling import about, question_of
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES
from warren_schemas.codec.wire import encode
from warren_schemas.episode import PolicyRef, Step
from warren_schemas.ids import ModelId
from warren_schemas.images import Image
from warren_schemas.tinker.requests import Sample
from warren_schemas.token_options import MAX_TOP, PromptLogprobs
from warren_schemas.transcript import Tokens, Transcript

POLICY = PolicyRef(model=ModelId("m"), base_model="b", min_version=0)
MOST = ROOM_BYTES // (13 + 4 + 8 * MAX_TOP)
"""Tokens with as many alternatives as there may be."""


def asked(n_tokens: int, *images: Image, **fields: object) -> Sample:
    chunks: list[dict[str, Any]] = [{"type": "encoded_text", "tokens": [1] * n_tokens}]
    chunks += [
        {"type": "image", "data": image.base64, "format": "png", "expected_tokens": 2}
        for image in images
    ]
    return Sample.model_validate(
        {"sampling_session_id": "s", "seq_id": 0, "prompt": {"chunks": chunks}, **fields}
    )


def step_of(n_tokens: int, prompt_logprobs: PromptLogprobs | None = None) -> Step:
    tokens = Tokens(
        ids_T=np.ones(n_tokens, np.int32),
        mask_T=np.ones(n_tokens, np.uint8),
        logprobs_T=np.zeros(n_tokens, np.float32),
        versions_T=np.zeros(n_tokens, np.int32),
    )
    return make_step(transcript=Transcript(tokens=tokens), prompt_logprobs=prompt_logprobs)


def test_the_most_that_is_accepted_fits_into_a_message_and_nearly_fills_it() -> None:
    question_of(asked(MOST, topk_prompt_logprobs=MAX_TOP), POLICY)
    told = PromptLogprobs(
        prompt_logprobs_T=np.zeros(MOST, np.float32),
        n_top=MAX_TOP,
        top_ids_S=np.ones(MOST * MAX_TOP, np.int32),
        top_logprobs_S=np.zeros(MOST * MAX_TOP, np.float32),
    )
    n_bytes = len(encode([step_of(MOST, told)]))
    assert ROOM_BYTES - 1024 < n_bytes < MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    "fields",
    [
        {"topk_prompt_logprobs": MAX_TOP},
        {"prompt_alt_tokens_k": MAX_TOP},
        {"topk_sample_logprobs": MAX_TOP},
    ],
)
def test_more_is_refused_and_the_most_is_told(fields: dict[str, object]) -> None:
    question_of(asked(MOST, **fields), POLICY)
    with pytest.raises(CantSample, match=f"tell of {MOST} tokens, and there are {MOST + 1}"):
        question_of(asked(MOST + 1, **fields), POLICY)


def test_what_is_asked_of_the_same_tokens_and_images_adds_up() -> None:
    both = {"topk_prompt_logprobs": MAX_TOP, "prompt_alt_tokens_k": MAX_TOP}
    with pytest.raises(CantSample, match="an answer can tell of"):
        question_of(asked(MOST, **both), POLICY)
    image = Image.of(b"\x89PNG\r\n\x1a\n" + bytes(1024))
    one = {"topk_prompt_logprobs": MAX_TOP}
    question_of(asked(MOST - 32, image, **one), POLICY)
    with pytest.raises(CantSample, match=f"and there are {MOST}"):
        question_of(asked(MOST - 2, image, **one), POLICY)
    question_of(asked(MOST + 1, image), POLICY)


def test_samples_that_became_too_long_to_ask_about_are_told_so() -> None:
    sample = asked(3, topk_sample_logprobs=MAX_TOP)
    question = question_of(sample, POLICY)
    assert len(about(sample, question, [step_of(MOST)])) == 1
    with pytest.raises(CantSample, match="topk_sample_logprobs"):
        about(sample, question, [step_of(MOST + 1)])
