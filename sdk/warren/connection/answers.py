"""Answers that are no success, as errors for people."""

from collections.abc import Mapping

from pydantic import ValidationError

from warren.errors import (
    AuthenticationError,
    ConfigurationError,
    GatewayBusy,
    GatewayError,
    NotFound,
    WarrenError,
)
from warren.settings import warren_home
from warren_schemas.http import Problem
from warren_schemas.text.explain import explain

_KINDS: dict[int, type[GatewayError]] = {
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFound,
    429: GatewayBusy,
    502: GatewayBusy,
    503: GatewayBusy,
    504: GatewayBusy,
}
_HINTS: dict[int, str] = {
    403: "Ask the gateway's owner for a key that may do this.",
    503: "Try again in a moment; `warren doctor` finds out more.",
}


def problem_error(url: str, status: int, headers: Mapping[str, str], body: bytes) -> WarrenError:
    """The error that an HTTP answer with this status stands for."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        problem = _foreign(url, status, headers.get("Content-Type", "no type"))
    hint = problem.hint or _HINTS.get(status)
    if status == 401 and (hint is None or problem.code == "unauthorized"):
        hint = _where_keys_are()  # the gateway's hint is for who writes HTTP requests
    if status in (400, 413, 422):
        return ConfigurationError(problem.message, details=problem.details, hint=hint)
    kind = _KINDS.get(status, GatewayError)
    error = kind(problem.message, details=problem.details, hint=hint)
    error.status, error.code = status, problem.code
    if isinstance(error, GatewayBusy):
        error.retry_after_s = _seconds(headers.get("Retry-After"))
    return error


def describe_failure(url: str, status: int, error: ValidationError) -> GatewayError:
    """A success that doesn't read as the body we expected: not a gateway, or another version."""
    return GatewayError(
        f"{url} answered HTTP {status}, but not what this version of warren understands",
        details=explain(error)[:3],
        hint="Check the address; `warren doctor` compares the versions.",
    )


def _where_keys_are() -> str:
    return (
        "Give the gateway's key by --api-key or WARREN_API_KEY (in Python, connect(api_key=…)); a gateway on this"
        f" machine keeps its key in {warren_home() / 'api-key'}."
    )


def _foreign(url: str, status: int, content_type: str) -> Problem:
    return Problem(
        code="not_a_gateway",
        message=f"{url} answered HTTP {status} ({content_type}), which is not a Warren gateway's answer",
        hint="Check the address: is another program or a proxy at this port?"
        if status < 500
        else None,
    )


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isdigit() else None
