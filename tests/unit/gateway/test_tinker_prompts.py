"""Prompts of Tinker's clients, with images, and the tokens whose logprobs they ask for: what samplers are asked."""

import base64
from typing import Any

import numpy as np
import pytest

from warren_gateway.tinker.asked_prompts import MOST_SHOWN_BYTES
from warren_gateway.tinker.chosen_tokens import tell_targets
from warren_gateway.tinker.samples.answering import CantSample
from warren_gateway.tinker.sampling import question_of
from warren_gateway.tinker.wire import messages
from warren_schemas.episode import PolicyRef
from warren_schemas.ids import ModelId
from warren_schemas.images import Image
from warren_schemas.tinker.requests import Sample
from warren_schemas.token_options import MAX_TARGETS, ImagePlace

POLICY = PolicyRef(model=ModelId("m"), base_model="b", min_version=0)
PNG = b"\x89PNG\r\n\x1a\n"
ONE, OTHER = PNG + b"one", b"\xff\xd8\xff" + b"other"
"""Files by their beginnings; what an image shows is for samplers."""

Json = dict[str, Any]


def in_base64(file: bytes) -> str:
    return base64.b64encode(file).decode()


def tokens(*ids: int) -> Json:
    return {"type": "encoded_text", "tokens": ids}


def image(file: bytes, **fields: object) -> Json:
    return {"type": "image", "data": in_base64(file), "format": "png", **fields}


def asked(*chunks: Json, **fields: object) -> Sample:
    return Sample.model_validate(
        {"sampling_session_id": "s", "seq_id": 0, "prompt": {"chunks": chunks}, **fields}
    )


def pointer(location: str) -> Json:
    return {"type": "image_asset_pointer", "format": "png", "location": location}


def test_images_travel_beside_their_tokens_and_stand_where_their_chunks_did() -> None:
    sample = asked(
        tokens(4, 5), image(ONE, expected_tokens=6), tokens(6), image(OTHER), num_samples=2
    )
    question = question_of(sample, POLICY)
    (shown,) = question.transcript.messages
    assert shown.images == (Image.of(ONE), Image.of(OTHER))
    assert not len(question.transcript.tokens)
    for number in range(2):
        options = question.options_of(number)
        assert options is not None and options.prompt is not None
        assert options.prompt.ids_T.tolist() == [4, 5, 6]
        assert options.prompt.images == (
            ImagePlace(n_before=2, n_expected=6),
            ImagePlace(n_before=3),
        )


def test_a_prompt_of_tokens_is_the_transcripts() -> None:
    question = question_of(asked(tokens(4), tokens(), tokens(5, 6)), POLICY)
    assert question.transcript.tokens.ids_T.tolist() == [4, 5, 6]
    assert question.options is not None and question.options.prompt is None


def test_a_pointer_that_holds_its_image_is_followed() -> None:
    location = f"data:image/png;base64,{in_base64(ONE)}"
    (shown,) = question_of(asked(pointer(location)), POLICY).transcript.messages
    assert shown.images == (Image.of(ONE),)


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (pointer("https://example.org/a.png"), "send the file as an image chunk"),
        (pointer("/etc/passwd"), "image 1 of the prompt: expected a data: URL"),
        (image(b"GIF89a"), "image 1 of the prompt: these 6 bytes are no PNG, JPEG or WebP file"),
        ({"type": "image", "data": "?"}, "image 1 of the prompt: "),
        ({"type": "dmel", "data": "?"}, "a chunk of the type dmel"),
        (tokens(), "the prompt has no tokens"),
    ],
)
def test_what_is_no_prompt_is_refused_with_a_reason(chunk: Json, reason: str) -> None:
    with pytest.raises(CantSample, match=reason):
        question_of(asked(chunk), POLICY)


def test_images_that_would_travel_too_often_are_refused() -> None:
    large = PNG + bytes(MOST_SHOWN_BYTES // 1024)
    with pytest.raises(CantSample, match="ask for fewer samples at a time"):
        question_of(asked(image(large), num_samples=1024), POLICY)


DENSE: Json = {"data": [-1, 7, 8, 9, -1, -1], "dtype": "int64", "shape": [3, 2]}
SPARSE: Json = {
    "data": [7, 8, -1],
    "dtype": "int64",
    "shape": [3, 2],
    "sparse_crow_indices": [0, 1, 2, 3],
    "sparse_col_indices": [1, 0, 0],
}


@pytest.mark.parametrize(
    ("tensor", "places", "ids"), [(DENSE, [1, 2, 2], [7, 8, 9]), (SPARSE, [1, 2], [7, 8])]
)
def test_targets_are_asked_for_at_their_places_and_told_as_they_were_asked(
    tensor: Json, places: list[int], ids: list[int]
) -> None:
    options = question_of(asked(tokens(1, 2, 3, 4), target_prompt_logprobs=tensor), POLICY).options
    assert options is not None and options.targets is not None
    assert options.targets.n_tokens == 4
    assert options.targets.places_S.tolist() == places
    assert options.targets.target_ids_S.tolist() == ids
    told = messages.Tensor()
    tell_targets(told, tensor, np.array([-1.0, -2.0, -3.0][: len(ids)], np.float32))
    assert (told.dtype, list(told.shape)) == (messages.FLOAT32, [3, 2])
    if tensor is DENSE:
        assert np.frombuffer(told.dense, "<f4").tolist() == [0, -1, -2, -3, 0, 0]
    else:
        sparse = told.sparse_csr
        assert np.frombuffer(sparse.values, "<f4").tolist() == [-1, -2, 0]
        assert np.frombuffer(sparse.crow_indices, "<i8").tolist() == [0, 1, 2, 3]
        assert np.frombuffer(sparse.col_indices, "<i8").tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (DENSE | {"dtype": "float32"}, "dtype"),
        (DENSE | {"shape": [6]}, "shape"),
        (DENSE | {"shape": [3, 3]}, "6 values for 9 cells"),
        (DENSE | {"data": [-1] * 6}, "names no token"),
        (DENSE | {"data": [-2] * 6}, "data"),
        (DENSE | {"shape": [MAX_TARGETS, 2]}, f"{MAX_TARGETS} are the most"),
        (SPARSE | {"sparse_col_indices": [2, 0, 0]}, "doesn't fit 3 rows of 2 columns"),
        (SPARSE | {"sparse_crow_indices": [0, 2, 1, 3]}, "doesn't fit 3 rows of 2 columns"),
        (SPARSE | {"sparse_crow_indices": [0, 3]}, "doesn't fit 3 rows of 2 columns"),
        (SPARSE | {"data": [7, 8]}, "2 values for 3 cells"),
        (SPARSE | {"sparse_crow_indices": [0, 1, 2, 2**63]}, "sparse_crow_indices"),
        (SPARSE | {"sparse_col_indices": [2**63, 0, 0]}, "sparse_col_indices"),
        (7, "target_prompt_logprobs: "),
    ],
)
def test_what_is_no_table_of_targets_is_refused(tensor: object, reason: str) -> None:
    sample = asked(tokens(1, 2, 3, 4), target_prompt_logprobs=tensor)
    with pytest.raises(CantSample, match=reason):
        question_of(sample, POLICY)
