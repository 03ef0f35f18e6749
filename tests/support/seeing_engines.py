"""Every engine on one tiny model that sees, and the text layer above it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.engines import ENGINES, completed, opened
from tests.support.seeing_models import BEGIN, BOS, END, EOS, IMAGE, seeing_logprobs
from transformers import PreTrainedModel

from warren_gpu_worker.base_models.loading import load_base, load_tokenizer
from warren_gpu_worker.base_models.vision_inputs import Placed, VisionInputs
from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurns
from warren_gpu_worker.sampler.child.image_cache import ImageCache
from warren_gpu_worker.sampler.child.policy_loader import PolicyLoader
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.child.turns import Answer, Turns
from warren_gpu_worker.sampler.engines.port import Engine, PolicyKey, Refusal, Request
from warren_gpu_worker.sampler.messages import (
    FinishedTurn,
    Images,
    Message,
    Orders,
    PolicySource,
    TurnRequest,
)
from warren_gpu_worker.settings import EngineName
from warren_schemas.config import Sampling
from warren_schemas.token_options import PromptWithImages, TokenOptions

EXACT = 1e-3


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

    def plain_turn(self, prompt: PromptWithImages, files: list[str]) -> TurnRequest:
        """Of exact tokens, with images among them."""
        turn = self.turn([("user", "", len(files))], files)
        return replace(turn, is_plain=True, options=TokenOptions(prompt=prompt))

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
