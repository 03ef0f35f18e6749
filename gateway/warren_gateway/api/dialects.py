"""Error bodies by API: each path answers in the format of its clients."""

from pydantic import BaseModel

from warren_gateway.api.openai.errors import as_openai, speaks_openai
from warren_gateway.api.tinker.errors import as_tinker, speaks_tinker
from warren_schemas.http import Problem
from warren_schemas.openai import OpenAIError
from warren_schemas.tinker.answers import Detail


def error_body(path: str, status: int, problem: Problem) -> tuple[int, BaseModel]:
    """Status and body, as the clients of this path read errors."""
    if speaks_openai(path):
        return as_openai(status, problem)
    return as_tinker(path, status, problem) if speaks_tinker(path) else (status, problem)


def error_of(path: str) -> type[BaseModel]:
    """What errors of this path look like."""
    if speaks_openai(path):
        return OpenAIError
    return Detail if speaks_tinker(path) else Problem
