"""What `tests/ecosystems/ors` uses of openreward, which is installed in an environment of its own: what `ors-sdk` has too,
terminal tools, prompts with roles and scores of groups."""

from collections.abc import Callable
from typing import TypeVar

from ors import Environment as Environment
from ors import Server as Server
from ors import tool as tool

_ToolT = TypeVar("_ToolT", bound=Callable[..., object])

def terminal(fn: _ToolT) -> _ToolT: ...
