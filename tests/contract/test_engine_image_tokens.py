"""What every engine promises of exact tokens with images among them, on one tiny model."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from tests.support.engines import ENGINES, completed, opened
from tests.support.seeing_engines import EXACT, Bench, Talk, bench, finished
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

from warren_gpu_worker.base_models.loading import load_base
from warren_gpu_worker.base_models.vision_inputs import Placed, VisionInputs
from warren_gpu_worker.sampler.engines.port import Refusal, Request
from warren_gpu_worker.settings import EngineName, VllmSettings
from warren_schemas.episode import FailureKind
from warren_schemas.token_options import (
    ImagePlace,
    PromptLogprobs,
    PromptWithImages,
    Targets,
    TokenOptions,
)

__all__ = ["bench", "seeing_model"]

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, raised between our lines


@pytest.fixture(params=ENGINES)
def plain_bench(request: pytest.FixtureRequest, seeing_model: str) -> Iterator[Bench]:
    """Without adapters, beside which vLLM on a CPU tells nothing of prompts."""
    name, vision = cast(EngineName, request.param), VisionInputs(seeing_model)
    without = VllmSettings(max_adapters=0)
    with opened(name, seeing_model, vision, vllm=without) as engine:
        yield Bench(engine, seeing_model, vision, load_base(seeing_model))


def told_of_prompt(bench: Bench, request: Request, options: TokenOptions) -> PromptLogprobs | None:
    """None where the engine is vLLM, which doesn't tell all that the other one does."""
    bench.n_requests += 1
    asked = replace(request, id=bench.n_requests, options=options)
    answer = bench.finish([asked])[asked.id]
    if isinstance(answer, Refusal) and "vLLM" in answer.reason:
        return None
    told = completed(answer).prompt_logprobs
    assert told is not None
    return told


def test_logprobs_of_a_prompt_with_images_are_a_plain_forwards(plain_bench: Bench) -> None:
    bench, key = plain_bench, plain_bench.key()
    bench.engine.load(key, 0, None)
    request = bench.request(key, [noise(i, 112, 112) for i in range(3)], n_text=100, max_tokens=1)
    told = told_of_prompt(bench, request, TokenOptions(prompt_logprobs=True))
    assert told is not None
    begun = replace(request, prompt_ids_T=request.prompt_ids_T[:1])
    own_T = seeing_logprobs(bench.base, begun, request.prompt_ids_T[1:])
    np.testing.assert_allclose(told.prompt_logprobs_T[1:], own_T, atol=EXACT)

    last, target = request.prompt_ids_T.size - 1, np.array([7], np.int32)
    targets = Targets(n_tokens=last + 1, places_S=np.array([last], np.int32), target_ids_S=target)
    told = told_of_prompt(bench, request, TokenOptions(targets=targets))
    if told is not None:
        before = replace(request, prompt_ids_T=request.prompt_ids_T[:-1])
        own_S = seeing_logprobs(bench.base, before, target)
        np.testing.assert_allclose(told.target_logprobs_S, own_S, atol=EXACT)


def test_exact_tokens_with_images_among_them_are_the_chats(bench: Bench) -> None:
    talk = Talk(bench)
    files = [in_base64(noise(7)), in_base64(noise(8, 56, 56))]
    images = (ImagePlace(n_before=2, n_expected=6), ImagePlace(n_before=4))
    prompt = PromptWithImages(
        ids_T=np.array([BOS, BEGIN, END, BEGIN, END, 20], np.int32), images=images
    )
    turn = talk.plain_turn(prompt, files)
    done = finished(talk.ask(turn)[turn.id])
    whole = [BOS, BEGIN, *[IMAGE] * 6, END, BEGIN, *[IMAGE] * 4, END, 20]
    assert done.prompt_ids_T.tolist() == whole
    pictures = (bench.vision.see(noise(7)), bench.vision.see(noise(8, 56, 56)))
    placed = tuple(Placed(s, p) for s, p in zip((2, 10), pictures, strict=True))
    plain = Request(0, talk.source.key, done.prompt_ids_T, turn.sampling, pictures=placed)
    assert np.abs(done.logprobs_T - seeing_logprobs(bench.base, plain, done.ids_T)).max() < EXACT


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        ((ImagePlace(n_before=0, n_expected=7),), "image 1 has 6 tokens, and 7 are expected"),
        ((), "it has 1 images for 0 places"),
    ],
)
def test_images_that_have_no_place_or_another_size_are_refused(
    bench: Bench, images: tuple[ImagePlace, ...], reason: str
) -> None:
    talk = Talk(bench)
    prompt = PromptWithImages(ids_T=np.array([BOS], np.int32), images=images)
    turn = talk.plain_turn(prompt, [in_base64(noise(7))])
    refusal = talk.ask(turn)[turn.id]
    assert isinstance(refusal, Refusal)
    assert refusal.kind is FailureKind.INVALID_REQUEST and reason in refusal.reason
