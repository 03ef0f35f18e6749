"""Turns: from chat to tokens, through the engine, and back to text.

The text layer of the sampler's child: it renders what is new, hands token ids to the engine, and
turns completions into words. Forced words skip the engine: their tokens count as sampled (mask 1)
with logprob 0, so that demonstrations are trained on like the policy's own turns.

Invariant: every accepted request is answered once, by a turn or a refusal, unless it is cancelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray

from warren_gpu_worker.base_models.vision_inputs import Picture, Placed
from warren_gpu_worker.sampler.child.image_cache import NOTHING_SEEN, Seen, expanded, placed
from warren_gpu_worker.sampler.child.policy_loader import PolicyLoader
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.engines.port import Completion, Engine, Refusal, Request
from warren_gpu_worker.sampler.messages import FinishedTurn, Orders, TurnRequest
from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind, FinishReason

Answer = FinishedTurn | Refusal


@dataclass(frozen=True, slots=True)
class _Open:
    prompt_ids_T: NDArray[np.int32]
    stop: tuple[str, ...]


class Turns:
    """`end_ids` are the tokens at which the engine ends a turn.

    `image_token` stands for images in prompts; None where the model reads text alone.
    """

    def __init__(
        self,
        engine: Engine,
        policy_loader: PolicyLoader,
        renderer: Renderer,
        end_ids: frozenset[int],
        image_token: int | None = None,
    ) -> None:
        self._engine = engine
        self._policy_loader = policy_loader
        self._renderer = renderer
        self._end_ids = end_ids
        self._image_token = image_token
        self._awaited: set[int] = set()
        self._open: dict[int, _Open] = {}
        self._answers: list[Answer] = []

    @property
    def has_work(self) -> bool:
        """Whether `step` would get anything done."""
        return self._engine.has_work or bool(self._answers)

    @property
    def n_open(self) -> int:
        return len(self._open) + len(self._awaited)

    def follow(self, orders: Orders) -> None:
        for news in orders.published:
            self._policy_loader.published(news)
        for request in orders.requests:
            if request.images is None:
                self._accept(request)
            else:
                self._awaited.add(request.id)
        if orders.cancelled:
            self._cancel(frozenset(orders.cancelled))

    def seen(self, turn: TurnRequest, outcome: Seen | Refusal) -> None:
        """A turn with images, which were looked at elsewhere; unless it was cancelled meanwhile."""
        if turn.id not in self._awaited:
            return
        self._awaited.discard(turn.id)
        if isinstance(outcome, Refusal):
            self._answers.append(outcome)
        else:
            self._accept(turn, outcome)

    def refuse(self, refusals: Sequence[Refusal]) -> None:
        for refusal in refusals:
            if self._open.pop(refusal.id, None):
                self._answers.append(refusal)

    def step(self) -> list[Answer]:
        """One more token for everybody; the turns that are now finished."""
        for answer in self._engine.step() if self._engine.has_work else ():
            if isinstance(answer, Refusal):
                self.refuse([answer])
            elif opened := self._open.pop(answer.id, None):
                self._answers.append(self._finished(answer, opened))
        self.refuse(self._policy_loader.settle())
        answers, self._answers = self._answers, []
        return answers

    def _accept(self, turn: TurnRequest, seen: Seen = NOTHING_SEEN) -> None:
        n_least = turn.ids_T.size + self._renderer.least_tokens(turn.messages)
        if n_least > self._engine.context_length:  # tokenizing it would hold the others up
            room = self._engine.context_length
            reason = f"the chat has more than {n_least} tokens, the context only {room}"
            self._answers.append(Refusal(turn.id, FailureKind.CONTEXT_LENGTH, reason))
            return
        try:
            prompt_ids_T = self._expanded(self._render(turn), seen.new(turn.messages))
            ids_T = np.concatenate([turn.ids_T, prompt_ids_T])
            pictures = self._placed(turn, ids_T, seen)
        except (TemplateError, ValueError) as error:
            reason = f"the chat can't be made into a prompt: {error}"
            self._answers.append(Refusal(turn.id, FailureKind.INVALID_REQUEST, reason))
            return
        if turn.forced_action is not None:
            self._answers.append(self._forced(turn, prompt_ids_T, turn.forced_action))
            return
        self._open[turn.id] = _Open(prompt_ids_T, turn.sampling.stop)
        sampling = _within_total(turn.sampling, ids_T.size)
        if sampling is None:
            reason = f"the episode has {ids_T.size} tokens, max_total_tokens is reached"
            self.refuse([Refusal(turn.id, FailureKind.CONTEXT_LENGTH, reason)])
            return
        request = Request(turn.id, turn.policy.key, ids_T, sampling, turn.priority, pictures)
        if refusal := self._policy_loader.submit(request, turn.policy):
            self.refuse([refusal])

    def _render(self, turn: TurnRequest) -> NDArray[np.int32]:
        thinking = turn.sampling.thinking
        if turn.is_plain:
            return self._plain(turn)
        if turn.ids_T.size == 0:
            return self._renderer.open(turn.messages, thinking=thinking)
        return self._renderer.extend(int(turn.ids_T[-1]), turn.messages, thinking=thinking)

    def _expanded(self, ids_T: NDArray[np.int32], pictures: Sequence[Picture]) -> NDArray[np.int32]:
        return ids_T if self._image_token is None else expanded(ids_T, self._image_token, pictures)

    def _placed(
        self, turn: TurnRequest, ids_T: NDArray[np.int32], seen: Seen
    ) -> tuple[Placed, ...]:
        if self._image_token is None or turn.images is None:
            return ()
        is_sampled_T = np.zeros(ids_T.size, np.bool_)
        is_sampled_T[: turn.ids_T.size] = np.frombuffer(turn.images.mask, np.bool_)
        return placed(ids_T, is_sampled_T, self._image_token, seen.pictures)

    def _plain(self, turn: TurnRequest) -> NDArray[np.int32]:
        if turn.ids_T.size:
            return np.zeros(0, np.int32)
        return self._renderer.plain("".join(message[1] for message in turn.messages))

    def _forced(
        self, turn: TurnRequest, prompt_ids_T: NDArray[np.int32], words: str
    ) -> FinishedTurn:
        ids_T = self._renderer.encode(words)
        return FinishedTurn(
            id=turn.id,
            prompt_ids_T=prompt_ids_T,
            ids_T=ids_T,
            logprobs_T=np.zeros(ids_T.size, np.float32),
            versions_T=np.full(ids_T.size, turn.policy.version, np.int32),
            text=words,
            finish=FinishReason.STOP,
        )

    def _finished(self, done: Completion, opened: _Open) -> FinishedTurn:
        ids = done.ids_T.tolist()
        words = self._renderer.text(ids[:-1] if ids[-1] in self._end_ids else ids)
        return FinishedTurn(
            id=done.id,
            prompt_ids_T=opened.prompt_ids_T,
            ids_T=done.ids_T,
            logprobs_T=done.logprobs_T,
            versions_T=done.versions_T,
            text=_cut(words, opened.stop) if opened.stop else words,
            finish=done.finish,
        )

    def _cancel(self, ids: frozenset[int]) -> None:
        for request_id in ids:
            self._open.pop(request_id, None)
        self._awaited -= ids
        self._policy_loader.cancel(ids)
        self._engine.cancel(ids)


def _within_total(sampling: Sampling, n_tokens: int) -> Sampling | None:
    """The settings with the turn's limit lowered to what the episode has left; None for nothing."""
    if sampling.max_total_tokens is None:
        return sampling
    n_left = sampling.max_total_tokens - n_tokens
    if n_left < 1:
        return None
    return sampling.model_copy(update={"max_tokens": min(sampling.max_tokens, n_left)})


def _cut(words: str, stop: tuple[str, ...]) -> str:
    """The words before the first stop string."""
    found = [place for place in (words.find(s) for s in stop) if place >= 0]
    return words[: min(found)] if found else words
