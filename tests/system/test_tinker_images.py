"""Images in prompts of Tinker's protocol, end to end: the wire, the queue, a sampler of a model that sees."""

import json
import time
from collections.abc import AsyncGenerator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from tests.support.base_models import tiny_models
from tests.support.gateway import Gateway
from tests.support.patience import several_waits
from tests.support.sampling_gateway import BASE, sampling_gateway
from tests.support.seeing_models import (
    BEGIN,
    BOS,
    END,
    IMAGE,
    in_base64,
    noise,
    seeing_logprobs,
    seeing_model,
)
from tests.support.tinker import Json, Wire, ids_of

from warren_gateway.store.tables import TinkerSample
from warren_gateway.tinker.wire import messages
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vision_inputs import Placed, VisionInputs
from warren_gpu_worker.sampler.engines.port import PolicyKey, Request
from warren_schemas.config import Sampling

__all__ = ["seeing_model", "tiny_models"]

EXACT = 1e-3
FILE = noise(3)
BEFORE, BEHIND = [BOS, 20, BEGIN], [END, 30, 31]
PROMPT = [*BEFORE, *[IMAGE] * 6, *BEHIND]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), several_waits]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    seeing_model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Gateway]:
    async with sampling_gateway(tmp_path_factory.mktemp("tinker"), seeing_model) as gateway:
        yield gateway


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


def chunks(**fields: Any) -> list[Json]:
    """Of a prompt with an image of 3 x 2 tokens."""
    image = {"type": "image", "data": in_base64(FILE), "format": "png", **fields}
    own = [{"type": "encoded_text", "tokens": ids} for ids in (BEFORE, BEHIND)]
    return [own[0], image, own[1]]


def plain(folder: str, ids: list[int], *, before: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """A plain forward's logprobs of the tokens behind the first `before` ones."""
    placed = (Placed(len(BEFORE), VisionInputs(folder).see(FILE)),)
    whole_T = np.array(ids, np.int32)
    asked = Request(0, PolicyKey("m"), whole_T[:before], Sampling(), pictures=placed)
    return seeing_logprobs(load_base(folder), asked, whole_T[before:])


async def test_samples_are_those_of_a_plain_forward(ann: Wire, seeing_model: str) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    shown = chunks(expected_tokens=6)
    asked: Json = {"num_samples": 2, "prompt_logprobs": True, "topk_sample_logprobs": 2}
    told = await ann.sample(sampler, 0, [], chunks=shown, **asked)
    assert len(told.sequences) == 2
    for sequence in told.sequences:
        ids = ids_of(sequence)
        own_T = plain(seeing_model, PROMPT + ids, before=len(PROMPT))
        np.testing.assert_allclose(np.frombuffer(sequence.logprobs, "<f4"), own_T, atol=EXACT)
        top = sequence.topk_sampled_logprobs
        assert (top.k, top.length) == (2, len(ids))
        best_T = np.frombuffer(top.logprobs, "<f4").reshape(-1, 2)[:, 0]
        assert (best_T >= own_T - EXACT).all()
    own_T = plain(seeing_model, PROMPT, before=1)
    prompt_T = np.frombuffer(told.prompt_logprobs, "<f4")
    np.testing.assert_allclose(prompt_T[1:], own_T, atol=EXACT)


async def test_tokens_that_are_named_or_drawn_are_told_at_each_place(
    ann: Wire, seeing_model: str
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    n = len(PROMPT)
    cells = np.full((n - 1, 2), -1)
    cells[-1] = 40, 41
    targets = {"data": cells.flatten().tolist(), "dtype": "int64", "shape": cells.shape}
    wanted = {"target_prompt_logprobs": targets, "prompt_alt_tokens_k": 3}
    told = await ann.sample(sampler, 0, [], chunks=chunks(), **wanted)
    assert list(told.target_prompt_logprobs.shape) == [n - 1, 2]
    scored = np.frombuffer(told.target_prompt_logprobs.dense, "<f4").reshape(n - 1, 2)
    own = [plain(seeing_model, [*PROMPT[:-1], token], before=n - 1)[0] for token in (40, 41)]
    np.testing.assert_allclose(scored[-1], own, atol=EXACT)
    assert not scored[:-1].any()
    alternatives = told.prompt_alt_tokens
    assert list(alternatives.tokens.shape) == list(alternatives.logprobs.shape) == [n - 1, 3]
    ids_TK = np.frombuffer(alternatives.tokens.dense, "<i8").reshape(n - 1, 3)
    logprobs_TK = np.frombuffer(alternatives.logprobs.dense, "<f4").reshape(n - 1, 3)
    other = plain(seeing_model, [*PROMPT[:-1], int(ids_TK[-1, 0])], before=n - 1)
    np.testing.assert_allclose(logprobs_TK[-1, :1], other, atol=EXACT)
    assert not told.prompt_logprobs and not told.topk_prompt_logprobs.length


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"expected_tokens": 7}, "image 1 has 6 tokens, and 7 are expected"),
        ({"data": in_base64(FILE[:60])}, "can't be read"),
        (
            {"type": "image_asset_pointer", "location": "s3://bucket/a.png"},
            "send the file as an image chunk",
        ),
    ],
)
async def test_an_image_that_cant_be_shown_fails_its_future(
    ann: Wire, fields: Json, reason: str
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    future = await ann.ask(sampler, 0, [], chunks=chunks(**fields))
    told = await ann.outcome(future["request_id"])
    assert isinstance(told, dict)
    assert told["category"] == "user" and reason in told["error"]


async def test_a_sample_with_an_image_whose_gateway_is_gone_is_asked_again(
    gateway: Gateway, ann: Wire, seeing_model: str
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    asked: Json = {
        "sampling_session_id": sampler,
        "seq_id": 5,
        "sampling_params": {"max_tokens": 3},
        "prompt": {"chunks": chunks()},
    }
    orphan = TinkerSample(
        id=f"{sampler}:5",
        sampler=sampler,
        owner="ann",
        asked=json.dumps(asked).encode(),
        holder="gateway_gone",
        held_until_s=time.time() + 60,
    )
    await gateway.store.transact(lambda session: session.add(orphan))
    told = await ann.outcome(f"{sampler}:5")
    assert isinstance(told, bytes)
    (sequence,) = messages.SampleResponse.FromString(told).sequences
    own_T = plain(seeing_model, PROMPT + ids_of(sequence), before=len(PROMPT))
    np.testing.assert_allclose(np.frombuffer(sequence.logprobs, "<f4"), own_T, atol=EXACT)


async def test_a_model_that_reads_text_alone_says_so(
    tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("text")
    async with sampling_gateway(folder, tiny_models[BASE]) as gateway:
        ann = Wire(gateway.ann)
        sampler = await ann.sampler(await ann.session(), base_model=BASE)
        future = await ann.ask(sampler, 0, [], chunks=chunks())
        told = await ann.outcome(future["request_id"])
    assert isinstance(told, dict)
    assert told["category"] == "user"
    assert "the base model can't be shown any: it reads text alone" in told["error"]
