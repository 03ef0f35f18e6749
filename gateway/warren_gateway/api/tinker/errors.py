"""Problems in the shape that Tinker's clients read, on the routes that they call.

What the clients make of a status: 408, 409, 429 and 5xx are tried again, the others are final. Who polls for a future
comes again at once after 5xx, and after a pause that grows to 30 s after 429: so no poll is answered with 5xx.
"""

from warren_gateway.api.problems import Refusal
from warren_gateway.api.reading import TOO_LARGE
from warren_schemas.http import Problem
from warren_schemas.tinker.answers import Detail

PREFIX = "/api/v1/"


def speaks_tinker(path: str) -> bool:
    return path.startswith(PREFIX)


_NOT_OFFERED = {
    "auth": "Warren's keys are used as they are, never exchanged.",
    "create_custom_loss": "A loss of your own is computed on your side: forward_backward_custom takes it.",
    "join_sampling_session": "A sampler can be used by several processes as it is.",
}
"""By the first part of the path: what there is in the place of a route of the protocol."""

_TOO_LARGE = {
    "forward_backward": "The SDK cuts what is trained on between sequences: make them shorter. The gateway's operator"
    " sets the limit (--tinker-op-mib).",
    "asample": "Ask with a shorter prompt, or with smaller images. The gateway's operator sets the limit"
    " (--tinker-prompt-mib).",
}
"""By route: what to do where the body is too large."""


_POLL = f"{PREFIX}retrieve_future"


def as_tinker(path: str, status: int, problem: Problem) -> tuple[int, Detail]:
    """Status and body."""
    is_polled_again_at_once = path == _POLL and status >= 500
    return 429 if is_polled_again_at_once else status, _detail(path, problem)


def _detail(path: str, problem: Problem) -> Detail:
    hint = problem.hint
    if problem.code == "not_found":
        hint = _NOT_OFFERED.get(path.removeprefix(PREFIX).partition("/")[0], hint)
    if problem.code == TOO_LARGE:
        hint = _TOO_LARGE.get(path.removeprefix(PREFIX), hint)
    parts = [problem.message, *problem.details, hint or ""]
    return Detail(detail=" ".join(part for part in parts if part), code=problem.code)


def no_such(what: str, name: str, status: int = 404) -> Refusal:
    message = f"There is no {what} {name} of yours."
    return Refusal(status, Problem(code=f"no_such_{what.replace(' ', '_')}", message=message))


def invalid(message: str, hint: str | None = None) -> Refusal:
    return Refusal(400, Problem(code="invalid_request", message=f"{message}.", hint=hint))
