"""What every engine decides alike: which requests can't be served, and when a turn is over."""

from collections.abc import Callable, Collection

from warren_gpu_worker.sampler.engines.port import Refusal, Request
from warren_schemas.episode import FailureKind, FinishReason
from warren_schemas.token_options import Targets

_BYTES_PER_CHARACTER = 4


class Endings:
    """`ids` end a turn; `decode_text` turns token ids into text, to look for stop strings."""

    def __init__(self, ids: Collection[int], decode_text: Callable[[list[int]], str]) -> None:
        self.ids = sorted(ids)
        self._ids = frozenset(ids)
        self._decode_text = decode_text

    def is_finished(self, request: Request) -> bool:
        """Whether its turn ends with its last token; then `finish` says how."""
        own_ids = request.options.end_ids
        end_ids = self._ids if own_ids is None else own_ids
        if request.ids[-1] in end_ids or self._is_stopped(request, request.sampling.stop):
            request.finish = FinishReason.STOP
        elif request.is_full:
            request.finish = FinishReason.LENGTH
        return request.finish is not None

    def ids_of(self, request: Request) -> list[int]:
        """Tokens that end its turn."""
        own_ids = request.options.end_ids
        return self.ids if own_ids is None else list(own_ids)

    def _is_stopped(self, request: Request, stop: tuple[str, ...]) -> bool:
        """Whether the last tokens hold a stop string; every token is at least one byte of it."""
        if not stop:
            return False
        n_tail = _BYTES_PER_CHARACTER * (max(len(s) for s in stop) + 1)
        tail = self._decode_text(request.ids[-n_tail:])
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
    targets = request.options.targets
    if targets is not None and (reason := _misfit(targets, ids_T.size, n_vocabulary)):
        return Refusal(request.id, FailureKind.INVALID_REQUEST, reason)
    return None


def _misfit(targets: Targets, n_tokens: int, n_vocabulary: int) -> str | None:
    if targets.n_tokens != n_tokens:
        return f"the targets have {targets.n_tokens - 1} rows; a prompt of {n_tokens} tokens has {n_tokens - 1}"
    if (largest := int(targets.target_ids_S.max())) >= n_vocabulary:
        return f"the token {largest} is a target; the model's token ids are below {n_vocabulary}"
    return None


def not_finite(request: Request, version: int) -> Refusal:
    reason = f"version {version} of {request.policy.model} gives logits that are not finite"
    return Refusal(request.id, FailureKind.SAMPLER_ERROR, reason)
