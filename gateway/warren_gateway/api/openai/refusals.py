"""Why a model doesn't answer, and what to do about it."""

from collections.abc import Sequence

from warren_gateway.advice import Advice
from warren_gateway.api.problems import Refusal
from warren_gateway.inference.sampler_requests import Answer
from warren_schemas.control import WorkerRole
from warren_schemas.episode import EpisodeEnded, Failed, FailureKind, Step
from warren_schemas.http import Problem

_RETRY_S = 5
_RETRY = {"Retry-After": f"{_RETRY_S}"}
_STATUSES = {
    FailureKind.CONTEXT_LENGTH: 400,
    FailureKind.INVALID_REQUEST: 400,
    FailureKind.IMAGES_UNSUPPORTED: 400,
    FailureKind.DEADLINE: 504,
}
"""Everything else is the sampler's own: 502."""


def unwrapped(answer: Answer) -> Step:
    """Raises `Refusal` for an answer that is a failure."""
    if isinstance(answer, EpisodeEnded):
        raise _failed(answer)
    return answer


def _failed(ended: EpisodeEnded) -> Refusal:
    outcome = ended.outcome
    if not isinstance(outcome, Failed):
        problem = Problem(
            code="context_length", message="The prompt leaves no tokens for an answer."
        )
        return Refusal(400, problem)
    if outcome.kind is FailureKind.POLICY_UNAVAILABLE:
        return _unavailable(outcome.reason, is_pinned=ended.spec.policy.pinned)
    problem = Problem(code=outcome.kind.value, message=f"{outcome.reason}.")
    return Refusal(_STATUSES.get(outcome.kind, 502), problem)


def _unavailable(reason: str, *, is_pinned: bool) -> Refusal:
    """A version that was pinned is gone or was never published; the newest one may come back."""
    if is_pinned:
        hint = "Samplers find the newest 32 versions that a run has published, and those that are served by name."
        return Refusal(404, Problem(code="no_such_model", message=f"{reason}.", hint=hint))
    return Refusal(503, Problem(code="policy_unavailable", message=f"{reason}."), _RETRY)


def no_such_model(name: str) -> Refusal:
    problem = Problem(
        code="no_such_model",
        message=f"There is no model {name}.",
        hint="GET /v1/models lists yours; RUN@VERSION names one version of a run's policy.",
    )
    return Refusal(404, problem)


def no_sampler(
    base_model: str, offered: Sequence[str], advice: Advice, *, retry_after_s: int = _RETRY_S
) -> Refusal:
    online = ", ".join(offered) or "none"
    remedy = advice.start(WorkerRole.SAMPLER, base_model)
    problem = Problem(
        code="no_sampler",
        message=f"No GPU worker offers {base_model}; online: {online}.",
        hint=f"{remedy[:1].upper()}{remedy[1:]}",
    )
    return Refusal(503, problem, {"Retry-After": f"{retry_after_s}"})


def too_late() -> Refusal:
    problem = Problem(
        code="deadline",
        message="No sampler answered in time.",
        hint="GET /v1/queues shows the queue lengths; start more GPU workers.",
    )
    return Refusal(504, problem)


def stopping() -> Refusal:
    problem = Problem(
        code="stopping", message="The gateway is stopping; try again when it is back."
    )
    return Refusal(503, problem, _RETRY)
