"""What every engine decides alike: which requests can't be served, and when a turn is over."""

from collections.abc import Callable, Collection

import numpy as np

from warren_gpu_worker.sampler.engines.port import Completion, Refusal, Request
from warren_gpu_worker.sampler.engines.transformers.rows import Row
from warren_schemas.episode import FailureKind, FinishReason

_BYTES_PER_CHARACTER = 4


class Endings:
    """`ids` end a turn; `decode_text` turns token ids into text, to look for stop strings."""

    def __init__(self, ids: Collection[int], decode_text: Callable[[list[int]], str]) -> None:
        self.ids = sorted(ids)
        self._ids = frozenset(ids)
        self._decode_text = decode_text

    def finish(self, row: Row, token: int) -> FinishReason | None:
        """Whether the row's turn ends with this token, its last one."""
        if token in self._ids:
            return FinishReason.STOP
        stop = row.request.sampling.stop
        if stop and self._is_stopped(row, stop):
            return FinishReason.STOP
        return FinishReason.LENGTH if len(row.ids) >= row.max_new_tokens else None

    def _is_stopped(self, row: Row, stop: tuple[str, ...]) -> bool:
        """Whether the last tokens hold a stop string; every token is at least one byte of it."""
        n_tail = _BYTES_PER_CHARACTER * (max(len(s) for s in stop) + 1)
        tail = self._decode_text(row.ids[-n_tail:])
        return any(s in tail for s in stop)


def objection(
    request: Request, context_length: int, n_vocabulary: int, *, sees: bool
) -> Refusal | None:
    """Why this request can't be served; it would take its neighbours down with it."""
    ids_T = request.prompt_ids_T
    if ids_T.size >= context_length:
        reason = f"the prompt has {ids_T.size} tokens, the context only {context_length}"
        return Refusal(request.id, FailureKind.CONTEXT_LENGTH, reason)
    if not ids_T.size or int(ids_T.max()) >= n_vocabulary or int(ids_T.min()) < 0:
        reason = f"the prompt must hold 1 or more token ids below {n_vocabulary}"
        return Refusal(request.id, FailureKind.INVALID_REQUEST, reason)
    if request.pictures and not sees:
        reason = "the prompt has images, and the model reads text alone"
        return Refusal(request.id, FailureKind.IMAGES_UNSUPPORTED, reason)
    return None


def not_finite(row: Row, version: int) -> Refusal:
    reason = f"version {version} of {row.request.policy.model} gives logits that are not finite"
    return Refusal(row.request.id, FailureKind.SAMPLER_ERROR, reason)


def completed(row: Row, finish: FinishReason) -> Completion:
    return Completion(
        id=row.request.id,
        ids_T=np.array(row.ids, np.int32),
        logprobs_T=np.array(row.logprobs, np.float32),
        versions_T=np.array(row.versions, np.int32),
        finish=finish,
    )
