"""Turns: from chat to tokens, through the engine, and back to text.

The text layer of the sampler's child: it renders what is new, hands token ids to the engine, and
turns what was sampled into words. Forced words skip the engine: their tokens count as sampled
(mask 1) with logprob 0, so that demonstrations are trained on like the policy's own turns.

`AcceptedTurns` sees to it that every turn is answered once.
"""

import time

import numpy as np
from jinja2 import TemplateError

from warren_gpu_worker.device_errors import first_line
from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurn, AcceptedTurns, Answer
from warren_gpu_worker.sampler.child.conversations import Conversations
from warren_gpu_worker.sampler.child.image_cache import NOTHING_SEEN, Seen
from warren_gpu_worker.sampler.child.policy_loader import PolicyLoader
from warren_gpu_worker.sampler.child.prompts import Prompts
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.engines.port import Engine, Refusal, Request
from warren_gpu_worker.sampler.messages import (
    FinishedTurn,
    Orders,
    OutOfMemory,
    Rendered,
    TurnRequest,
)
from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind, FinishReason
from warren_schemas.sampling_mask import MAX_MASK_IDS


class Turns:
    """`accepted` is the ledger that the policy loader has, too.

    `end_ids` are the tokens at which the engine ends a turn. `image_token` stands for images in
    prompts; None where the model reads text alone.
    """

    def __init__(
        self,
        engine: Engine,
        accepted: AcceptedTurns,
        policy_loader: PolicyLoader,
        renderer: Renderer,
        end_ids: frozenset[int],
        image_token: int | None = None,
    ) -> None:
        self._engine = engine
        self._accepted = accepted
        self._policy_loader = policy_loader
        self._renderer = renderer
        self._end_ids = end_ids
        self._prompts = Prompts(renderer, image_token)
        self._conversations = Conversations(renderer)

    @property
    def has_work(self) -> bool:
        """Whether `step` would get anything done."""
        return self._engine.has_work or self._accepted.has_answers

    @property
    def n_open(self) -> int:
        return len(self._accepted)

    def follow(self, orders: Orders) -> None:
        for news in orders.published:
            self._policy_loader.note_published(news)
        for turn in orders.requests:
            accepted = self._accepted.accept(turn)
            if turn.images is None:
                self._begin(accepted, turn)
        if orders.cancelled:
            self._accepted.cancel(orders.cancelled)
            self._engine.cancel(frozenset(orders.cancelled))

    def seen(self, turn: TurnRequest, outcome: Seen | Refusal) -> None:
        """A turn's images were looked at elsewhere; it may have been cancelled meanwhile."""
        if isinstance(outcome, Refusal):
            self._accepted.answer(outcome)
        elif accepted := self._accepted.get(turn.id):
            self._begin(accepted, turn, outcome)

    def too_large(self, error: Exception) -> OutOfMemory:
        """What is to be said of an error by which the device had too little memory."""
        n_running = self._engine.statistics().n_running
        return OutOfMemory(first_line(error), n_running, self._accepted.first())

    def step(self) -> list[Answer]:
        """One more token for everybody; the turns that are now finished."""
        for answer in self._stepped() if self._engine.has_work else ():
            if isinstance(answer, Refusal):
                self._accepted.answer(answer)
            elif turn := self._accepted.get(answer.id):
                self._accepted.answer(self._finished(turn, answer))
        self._policy_loader.settle()
        return self._accepted.take_answers()

    def _stepped(self) -> list[Request | Refusal]:
        before, begun_s = self._engine.statistics(), time.monotonic()
        answers = self._engine.step()
        step_s = time.monotonic() - begun_s
        self._accepted.engine_time.add(step_s, before.n_running + before.n_waiting)
        return answers

    def _begin(self, accepted: AcceptedTurn, turn: TurnRequest, seen: Seen = NOTHING_SEEN) -> None:
        n_least = turn.ids_T.size + self._renderer.least_tokens(turn.messages)
        if (
            n_least > self._engine.context_length and turn.learned is None
        ):  # tokenizing it would hold the others up
            most = self._engine.context_length
            reason = f"the chat has more than {n_least} tokens, the context only {most}"
            return self._refuse(turn, FailureKind.CONTEXT_LENGTH, reason)
        if turn.learned is not None:
            return self._accepted.answer(self._rendered(turn, turn.learned))
        try:
            request = self._prompts.request_for(turn, seen)
        except (TemplateError, ValueError) as error:
            reason = f"the chat can't be made into a prompt: {error}"
            return self._refuse(turn, FailureKind.INVALID_REQUEST, reason)
        if turn.forced_action is not None:
            return self._accepted.answer(self._forced(turn, request, turn.forced_action))
        n_tokens = request.prompt_ids_T.size
        sampling = _within_total(turn.sampling, n_tokens)
        if sampling is None:
            reason = f"the episode has {n_tokens} tokens, max_total_tokens is reached"
            return self._refuse(turn, FailureKind.CONTEXT_LENGTH, reason)
        if turn.mask_capacity is not None and turn.mask_capacity < 1:
            reason = f"the sampling mask of the episode has {MAX_MASK_IDS} token ids; lower top_k or top_p"
            return self._refuse(turn, FailureKind.CONTEXT_LENGTH, reason)
        request.sampling = sampling
        accepted.request = request
        self._policy_loader.submit_turn(accepted)

    def _refuse(self, turn: TurnRequest, kind: FailureKind, reason: str) -> None:
        self._accepted.answer(Refusal(turn.id, kind, reason))

    def _rendered(self, turn: TurnRequest, learned: tuple[int, ...]) -> Rendered | Refusal:
        """A conversation as tokens, cut where the model's context or the run's limit ends."""
        try:
            ids_T, mask_T = self._conversations.tokens(
                turn.messages, learned, is_plain=turn.is_plain, thinking=turn.sampling.thinking
            )
        except (TemplateError, ValueError) as error:
            reason = f"the conversation can't be made into tokens: {error}"
            return Refusal(turn.id, FailureKind.INVALID_REQUEST, reason)
        most = min(turn.sampling.max_total_tokens or ids_T.size, self._engine.context_length)
        return Rendered(
            id=turn.id,
            ids=ids_T[:most].tobytes(),
            mask=mask_T[:most].tobytes(),
            is_cut=ids_T.size > most,
            tokenizer=self._renderer.vocabulary,
        )

    def _forced(self, turn: TurnRequest, request: Request, words: str) -> FinishedTurn:
        ids_T = self._renderer.encode(words)
        return FinishedTurn(
            id=turn.id,
            prompt_ids_T=request.prompt_ids_T[turn.ids_T.size :],
            ids_T=ids_T,
            logprobs_T=np.zeros(ids_T.size, np.float32),
            versions_T=np.full(ids_T.size, turn.policy.version, np.int32),
            text=words,
            finish=FinishReason.STOP,
            tokenizer=self._renderer.vocabulary,
        )

    def _finished(self, turn: AcceptedTurn, done: Request) -> FinishedTurn:
        assert done.finish, "the engine answers with requests that are finished"
        ids, stop = done.ids, done.sampling.stop
        words = self._renderer.text(ids[:-1] if ids[-1] in self._end_ids else ids)
        return FinishedTurn(
            id=done.id,
            prompt_ids_T=done.prompt_ids_T[turn.n_tokens_before :],
            ids_T=done.ids_T,
            logprobs_T=done.logprobs_T,
            versions_T=done.versions_T,
            text=_cut(words, stop) if stop else words,
            finish=done.finish,
            tokenizer=self._renderer.vocabulary,
            sampling_mask=done.sampling_mask,
            sampling_s=time.monotonic() - turn.submitted_s,
            gpu_s=self._accepted.engine_time.per_turn_s - turn.engine_s_before,
            prompt_logprobs=done.prompt_logprobs,
        )


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
