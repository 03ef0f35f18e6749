"""Problems in the shape that OpenAI's clients read, on the routes that they call."""

from warren_schemas.http import Problem
from warren_schemas.openai import OpenAIError, OpenAIProblem

_ROUTES = ("/v1/models", "/v1/chat/completions", "/v1/completions", "/inference/v1/generate")
_CODES = {
    "invalid_config": "invalid_request",
    "unauthorized": "invalid_api_key",
    "no_such_model": "model_not_found",
    "context_length": "context_length_exceeded",
    "over_budget": "rate_limit_exceeded",
}
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def speaks_openai(path: str) -> bool:
    return any(path == route or path.startswith(f"{route}/") for route in _ROUTES)


def as_openai(status: int, problem: Problem) -> tuple[int, OpenAIError]:
    """Status and body; what doesn't fit the schema is a 400 there."""
    status = 400 if status == 422 else status
    where = problem.details[0].partition(": ") if problem.details else ("", "", "")
    told = OpenAIProblem(
        message=_message(problem),
        type=_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error"),
        param=where[0] if where[1] else None,
        code=_CODES.get(problem.code, problem.code),
    )
    return status, OpenAIError(error=told)


def _message(problem: Problem) -> str:
    if problem.details:
        return "; ".join(problem.details)
    return f"{problem.message} {problem.hint}" if problem.hint else problem.message
