"""A reward function that came with the config, as text: it runs in a sandbox and nowhere else.

It takes by name what a function by its import path may take. Invariant: this process parses the text and never executes
it; of what the sandbox prints only a number is taken, and whatever else comes of it is `RewardFailed`.
"""

import ast
import secrets
from collections.abc import Sequence

from warren.environment import ConfigError
from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.settings import SandboxLimits, SandboxSettings
from warren_env_worker.background_loop import background_loop
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.permissions.secrets import shortened
from warren_env_worker.rewards.function import MAX_REASON_CHARS, finite, offered
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_env_worker.sandbox.shared import sandboxes_of
from warren_schemas.config import CodeReward
from warren_schemas.text.python_source import syntax_tree

NAME = "reward"


class RewardCode:
    def __init__(self, settings: CodeReward, permissions: Permissions) -> None:
        """Raises `ConfigError` for text that is no such function, and for more time than the operator allows."""
        self._code = settings.code
        self._names = _taken(_found(settings.code))
        self._sandboxes = sandboxes_of(_sandbox(settings.limit_s), permissions)

    async def __call__(self, scored: Scored) -> float:
        """Raises `RewardFailed`."""
        mark = f"{secrets.token_hex(8)} "
        try:
            result = await background_loop().call(self._run(self._cell(scored, mark)))
        except SandboxFailed as error:
            raise RewardFailed(f"{NAME}() of the config was not run: {error}") from error
        return _number(result, mark)

    async def _run(self, cell: str) -> CellResult:
        sandbox = await self._sandboxes.open()
        try:
            return await self._sandboxes.run(sandbox, cell)
        finally:
            await sandbox.close()

    def _cell(self, scored: Scored, mark: str) -> str:
        """What the function prints itself stands before the mark."""
        given = _plain(scored)
        call = ", ".join(f"{name}={given[name]!r}" for name in self._names)
        return f"{self._code}\n\nprint()\nprint({mark!r} + repr(float({NAME}({call}))))\n"


def _sandbox(limit_s: float | None) -> SandboxSettings:
    if limit_s is None:
        return SandboxSettings()
    return SandboxSettings(limits=SandboxLimits(cell_s=limit_s))


def _found(code: str) -> ast.FunctionDef:
    try:
        tree = syntax_tree(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"code is no Python: {error}") from error
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == NAME]
    if not found:
        raise ConfigError(f"code has no function {NAME}; it begins with `def {NAME}(`")
    return found[-1]


def _taken(function: ast.FunctionDef) -> Sequence[str]:
    """The names of what it is given: all that it has no default for, and what it has one for where it is offered."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    required = named[: len(named) - len(arguments.defaults)]
    required += [
        argument
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    may_take = offered(Scored((), "", None, 0.0))
    unknown = [argument.arg for argument in required if argument.arg not in may_take]
    if unknown or arguments.posonlyargs:
        asked = ", ".join(unknown) or "arguments without names"
        raise ConfigError(f"{NAME} of code asks for {asked}; it may take {', '.join(may_take)}")
    if arguments.kwarg is not None:
        return tuple(may_take)
    every = (*named, *arguments.kwonlyargs)
    return tuple(argument.arg for argument in every if argument.arg in may_take)


def _plain(scored: Scored) -> dict[str, object]:
    """With messages as dicts, for there are no classes of ours within."""
    messages = [{"role": m.role, "content": m.content} for m in scored.messages]
    return {**offered(scored), "messages": messages, "metrics": dict(scored.metrics)}


def _number(result: CellResult, mark: str) -> float:
    _, is_there, last = result.output.rpartition(mark)
    if result.status is CellStatus.OK and is_there:
        try:
            return finite(float(last), f"{NAME}() of the config")
        except ValueError as error:
            raise RewardFailed(f"{NAME}() of the config gave no number") from error
    lines = result.output.strip().splitlines()
    why = f": {shortened(lines[-1], MAX_REASON_CHARS)}" if lines else ""
    raise RewardFailed(f"{NAME}() of the config failed ({result.status}){why}")
