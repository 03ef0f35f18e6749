# pyright: reportUnknownMemberType=false
"""What every engine promises about images, and the text layer above it, on one tiny model."""

import copy
import json
from typing import cast

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tests.support.sampling import nudged, with_weights
from tests.support.seeing_engines import EXACT, Bench, Talk, bench, finished, gap
from tests.support.seeing_models import (
    IMAGE,
    blank,
    in_base64,
    noise,
    seeing_logprobs,
    seeing_model,
)
from transformers import PreTrainedModel

from warren_gpu_worker.base_models.vision_inputs import MAX_PIXELS, Placed
from warren_gpu_worker.sampler.engines.port import MAX_IMAGES, Refusal, Request
from warren_gpu_worker.sampler.messages import Orders
from warren_gpu_worker.weights import PolicyFiles, view_policy
from warren_schemas.episode import FailureKind

__all__ = ["bench", "seeing_model"]

OTHER = 0.01
"""A difference that another image makes, and rounding never does."""

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, raised between our lines


def test_logprobs_are_a_plain_forwards_for_text_and_images_side_by_side(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    shapes = [(84, 56), (56, 56), (112, 56), (56, 140)]
    files = [noise(i, *shape) for i, shape in enumerate(shapes)]
    shown = [[], files[:1], files[1:3], files, files[3:], []]
    requests = [bench.request(key, each, n_text=3 + 4 * i) for i, each in enumerate(shown)]
    done = bench.finish(requests)
    for request in requests:
        assert gap(bench.base, request, done[request.id]) < EXACT


def test_equal_tokens_with_other_images_are_told_apart(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    first = bench.request(key, [noise(1)], max_tokens=12)
    requests = [first]
    for seed in (2, 1, 3):
        pictures = (Placed(first.pictures[0].start, bench.vision.see(noise(seed))),)
        bench.n_requests += 1
        requests.append(
            Request(bench.n_requests, key, first.prompt_ids_T, first.sampling, pictures=pictures)
        )
    done = bench.finish(requests)
    other = Request(0, key, first.prompt_ids_T, first.sampling, pictures=requests[1].pictures)
    for request in requests:
        assert gap(bench.base, request, done[request.id]) < EXACT
    assert gap(bench.base, other, done[first.id]) > OTHER


def test_an_image_token_that_the_policy_sampled_is_a_token_like_others(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    plain = bench.request(key, [noise(4)])
    strays = np.array([IMAGE, 20, IMAGE, IMAGE], np.int32)
    ids_T = np.concatenate([strays, plain.prompt_ids_T, strays])
    placed = (Placed(plain.pictures[0].start + strays.size, plain.pictures[0].picture),)
    request = Request(plain.id, key, ids_T, plain.sampling, pictures=placed)
    done = bench.finish([request])
    assert gap(bench.base, request, done[request.id]) < EXACT


def _adapter(base: PreTrainedModel) -> tuple[PolicyFiles, PeftModel]:
    torch.manual_seed(5)
    targets = r".*language_model.*\.(q_proj|down_proj)"
    config = LoraConfig(r=4, lora_alpha=8, target_modules=targets)
    model = cast(PeftModel, get_peft_model(copy.deepcopy(base), config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.2)
    view = view_policy(model)
    tensors = {name: tensor.clone() for name, tensor in view.tensors.items()}
    return PolicyFiles("lora", tensors, json.loads(view.config)), model.eval()


def test_an_adapter_of_the_language_part_is_followed(bench: Bench) -> None:
    key = bench.key()
    files, model = _adapter(bench.base)
    bench.engine.load(key, 1, files)
    requests = [bench.request(key, [noise(5)]), bench.request(key, [])]
    done = bench.finish(requests)
    adapted = cast(PreTrainedModel, model.get_base_model())
    for request in requests:
        assert gap(adapted, request, done[request.id]) < EXACT
        assert gap(bench.base, request, done[request.id]) > OTHER


def test_new_weights_of_the_vision_tower_are_looked_through(bench: Bench) -> None:
    key = bench.key()
    for version in (1, 2):
        weights = nudged(bench.base, version)
        bench.engine.load(key, version, weights)
        request = bench.request(key, [noise(6)])  # the same image: nothing of it may be kept
        done = bench.finish([request])
        model = with_weights(bench.base, weights)
        assert gap(model, request, done[request.id]) < EXACT


def test_two_turns_with_an_image_each_only_append_tokens(bench: Bench) -> None:
    talk = Talk(bench)
    files = [in_base64(noise(7)), in_base64(noise(8, 56, 56))]
    first = talk.turn([("user", "what?", 1)], files[:1])
    one = finished(talk.ask(first)[first.id])
    so_far = np.concatenate([one.prompt_ids_T, one.ids_T])
    mask = np.concatenate([np.zeros(one.prompt_ids_T.size), np.ones(one.ids_T.size)])
    second = talk.turn([("user", "and?", 1)], files, so_far, mask.astype(np.uint8))
    two = finished(talk.ask(second)[second.id])
    assert [(turn.prompt_ids_T == IMAGE).sum() for turn in (one, two)] == [6, 4]
    pictures = (bench.vision.see(noise(7)), bench.vision.see(noise(8, 56, 56)))
    prompt = np.concatenate([so_far, two.prompt_ids_T])
    starts = [2, so_far.size + int(np.argmax(two.prompt_ids_T == IMAGE))]
    placed = tuple(Placed(s, p) for s, p in zip(starts, pictures, strict=True))
    whole = Request(0, talk.source.key, prompt, second.sampling, pictures=placed)
    assert np.abs(two.logprobs_T - seeing_logprobs(bench.base, whole, two.ids_T)).max() < EXACT


@pytest.mark.parametrize(
    ("files", "text", "expected"),
    [
        ([noise(0)[:40]], "?", "image 1 of the chat can't be shown: it can't be read"),
        ([noise(0), noise(0)[:-60]], "?", "image 2 of the chat can't be shown: it can't be read"),
        ([noise(0, 600, 2)], "?", "absolute aspect ratio must be smaller than 200"),
        ([noise(0)] * (MAX_IMAGES + 1), "?", f"the chat has 65 images; {MAX_IMAGES} can be shown"),
        ([noise(0)], "<|image_pad|>", "its text holds the token that stands for an image"),
        ([blank(4100, 4100)], "?", f"pixels; {MAX_PIXELS} can be shown"),
    ],
)
def test_bad_images_are_refused_and_their_neighbours_answered(
    bench: Bench, files: list[bytes], text: str, expected: str
) -> None:
    talk = Talk(bench)
    bad = talk.turn([("user", text, len(files))], list(map(in_base64, files)))
    good = talk.turn([("user", "?", 1)], [in_base64(noise(1))])
    answers = talk.ask(bad, good)
    finished(answers[good.id])
    refusal = answers[bad.id]
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, expected in refusal.reason) == (FailureKind.INVALID_REQUEST, True)


def test_a_prompt_that_outgrows_the_context_with_its_images_is_refused(bench: Bench) -> None:
    talk = Talk(bench)
    turn = talk.turn([("user", "?", 40)], [in_base64(noise(0, 112, 112))] * 40)
    refusal = talk.ask(turn)[turn.id]
    assert isinstance(refusal, Refusal)
    assert refusal.kind is FailureKind.CONTEXT_LENGTH


def test_a_cancelled_turn_is_answered_by_nothing_though_its_images_were_seen(bench: Bench) -> None:
    talk = Talk(bench)
    turn = talk.turn([("user", "?", 1)], [in_base64(noise(1))])
    talk.turns.follow(Orders(requests=[turn]))
    assert talk.turns.n_open == 1
    talk.turns.follow(Orders(cancelled=[turn.id]))
    talk.turns.seen(turn, talk.image_cache.see(turn))
    assert (talk.turns.n_open, talk.turns.step()) == (0, [])
