# pyright: reportUnknownMemberType=false
"""What every engine promises about images, and the text layer above it, on one tiny model."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peft import LoraConfig, PeftModel, get_peft_model
from tests.support.engines import ENGINES, completed, opened
from tests.support.sampling import nudged, with_weights
from tests.support.seeing_models import (
    BEGIN,
    BOS,
    END,
    EOS,
    IMAGE,
    blank,
    in_base64,
    noise,
    seeing_logprobs,
    seeing_model,
)
from transformers import PreTrainedModel

from warren_gpu_worker.base_models.loading import load_base, load_tokenizer
from warren_gpu_worker.base_models.vision_inputs import MAX_PIXELS, Placed, VisionInputs
from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurns
from warren_gpu_worker.sampler.child.image_cache import ImageCache
from warren_gpu_worker.sampler.child.policy_loader import PolicyLoader
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.child.turns import Answer, Turns
from warren_gpu_worker.sampler.engines.port import MAX_IMAGES, Engine, PolicyKey, Refusal, Request
from warren_gpu_worker.sampler.messages import (
    FinishedTurn,
    Images,
    Message,
    Orders,
    PolicySource,
    TurnRequest,
)
from warren_gpu_worker.settings import EngineName
from warren_gpu_worker.weights import PolicyFiles, view_policy
from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind

__all__ = ["seeing_model"]

EXACT = 1e-3
OTHER = 0.01
"""A difference that another image makes, and rounding never does."""

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, raised between our lines


@dataclass
class Bench:
    engine: Engine
    folder: str
    vision: VisionInputs
    base: PreTrainedModel
    n_requests: int = 0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def key(self) -> PolicyKey:
        """A policy that no other test has used."""
        self.n_requests += 1
        return PolicyKey(f"model_{self.n_requests}")

    def request(
        self, policy: PolicyKey, files: list[bytes], n_text: int = 6, max_tokens: int = 10
    ) -> Request:
        """Text, then each image with text behind it; not submitted."""
        parts: list[NDArray[np.int32]] = [np.array([BOS, *self.text(n_text)], np.int32)]
        placed: list[Placed] = []
        for file in files:
            picture = self.vision.see(file)
            placed.append(Placed(sum(part.size for part in parts) + 1, picture))
            shown = [BEGIN, *[IMAGE] * picture.n_tokens, END, *self.text(n_text)]
            parts.append(np.array(shown, np.int32))
        self.n_requests += 1
        sampling = Sampling(max_tokens=max_tokens)
        prompt = np.concatenate(parts)
        return Request(self.n_requests, policy, prompt, sampling, pictures=tuple(placed))

    def text(self, n: int) -> list[int]:
        return self.rng.integers(7, 60, n).tolist()

    def finish(self, requests: list[Request]) -> dict[int, Request | Refusal]:
        refused = self.engine.add_requests(requests)
        answers: dict[int, Request | Refusal] = {refusal.id: refusal for refusal in refused}
        while self.engine.has_work:
            answers |= {answer.id: answer for answer in self.engine.step()}
        return answers


@pytest.fixture(scope="module", params=ENGINES)
def bench(request: pytest.FixtureRequest, seeing_model: str) -> Iterator[Bench]:
    vision = VisionInputs(seeing_model)
    with opened(cast(EngineName, request.param), seeing_model, vision) as engine:
        yield Bench(engine, seeing_model, vision, load_base(seeing_model))


def gap(model: PreTrainedModel, request: Request, answer: Request | Refusal) -> float:
    """The largest difference of a told logprob from the model's own."""
    done = completed(answer)
    return float(np.abs(done.logprobs_T - seeing_logprobs(model, request, done.ids_T)).max())


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


class Talk:
    """The text layer on the engine, with turns asked for one by one or together."""

    def __init__(self, bench: Bench) -> None:
        renderer = Renderer(load_tokenizer(bench.folder), [EOS])
        renderer.check_images(IMAGE)
        accepted = AcceptedTurns()
        policy_loader = PolicyLoader(bench.engine, accepted, lambda _: None)
        self.image_cache = ImageCache(bench.vision)
        self.turns = Turns(bench.engine, accepted, policy_loader, renderer, frozenset({EOS}), IMAGE)
        self.source = PolicySource(bench.key(), 0, None)
        self._bench = bench

    def turn(
        self,
        messages: list[Message],
        files: list[str],
        ids_T: NDArray[np.int32] | None = None,
        mask_T: NDArray[np.uint8] | None = None,
    ) -> TurnRequest:
        ids_T = np.zeros(0, np.int32) if ids_T is None else ids_T
        mask = b"" if mask_T is None else mask_T.tobytes()
        self._bench.n_requests += 1
        images = Images(tuple(files), mask) if files else None
        return TurnRequest(
            self._bench.n_requests, self.source, ids_T, tuple(messages),
            Sampling(max_tokens=8), None, images=images,
        )  # fmt: skip

    def ask(self, *asked: TurnRequest) -> dict[int, Answer]:
        self.turns.follow(Orders(requests=list(asked)))
        for turn in asked:
            if turn.images:
                self.turns.seen(turn, self.image_cache.see(turn))
        answers: dict[int, Answer] = {}
        while self.turns.has_work:
            answers |= {answer.id: answer for answer in self.turns.step()}
        return answers


def finished(answer: Answer) -> FinishedTurn:
    assert isinstance(answer, FinishedTurn), answer
    return answer


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
