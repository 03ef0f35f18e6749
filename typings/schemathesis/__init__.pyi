"""What `tests/fuzz/http/hooks.py` uses of schemathesis, which is installed in an environment of its own."""

from collections.abc import Callable
from typing import TypeVar

_HookT = TypeVar("_HookT", bound=Callable[..., object])

class _Named:
    value: str

class _Phase:
    name: _Named

class _Meta:
    phase: _Phase

class HookContext: ...

class Case:
    path: str
    formatted_path: str
    query: dict[str, object] | None
    meta: _Meta | None

class Response:
    status_code: int
    headers: dict[str, list[str]]
    text: str

def hook(function: _HookT) -> _HookT: ...
