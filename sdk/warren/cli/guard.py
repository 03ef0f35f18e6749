"""Turns every error of a command into a sentence and an exit code.

Invariant: no traceback reaches a user, unless WARREN_DEBUG=1 asks for it.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import cast

from cyclopts import CycloptsError

from warren.cli import codes
from warren.cli.plugins import install_command
from warren.errors import (
    AuthenticationError,
    ConfigurationError,
    GatewayBusy,
    GatewayUnreachable,
    NotFound,
    WarrenError,
)
from warren.version import IN_CLONE


def guarded(command: Callable[[], object], tokens: Sequence[str]) -> int:
    """Run a command; the exit code."""
    try:
        result = command()
        sys.stdout.flush()
        return result if isinstance(result, int) else codes.OK
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else codes.OK
    except KeyboardInterrupt:
        return codes.INTERRUPTED
    except Exception as error:  # noqa: BLE001  the edge: everything becomes a sentence
        return _report(error, tokens)


def _report(error: Exception, tokens: Sequence[str]) -> int:
    if os.environ.get("WARREN_DEBUG") == "1":
        traceback.print_exception(error)
    error = _inner(error)
    if isinstance(error, BrokenPipeError):
        return _close_stdout()
    told = explained(error, tokens)
    print_error(told)
    return exit_code(told)


def explained(error: Exception, tokens: Sequence[str]) -> WarrenError:
    """The error as one that says the next thing to do."""
    if isinstance(error, WarrenError):
        return error
    if isinstance(error, CycloptsError):
        return _refused(error)
    missing = _missing_package(error)
    if missing is not None:
        return _not_installed(missing, tokens)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return WarrenError(f"{place}{error.strerror or error}")
    return WarrenError(
        f"warren broke: {type(error).__name__}: {error}",
        hint="This is a bug. Run it again with WARREN_DEBUG=1 and report what it prints.",
    )


def _refused(error: CycloptsError) -> ConfigurationError:
    """What is wrong with a command line; options that come from a settings model are explained."""
    command = " ".join(["warren", *(error.command_chain or ())])
    hint = f"`{command} --help` tells more."
    if (
        type(error.__cause__).__name__ != "ValidationError"
    ):  # pydantic need not be loaded for others
        return ConfigurationError(str(error).strip(), hint=hint)
    from pydantic import ValidationError

    from warren_schemas.text.explain import explain

    assert isinstance(error.__cause__, ValidationError)
    return ConfigurationError("These options won't do", details=explain(error.__cause__), hint=hint)


def exit_code(error: Exception) -> int:
    if isinstance(error, GatewayUnreachable | AuthenticationError | GatewayBusy):
        return codes.UNREACHABLE
    if isinstance(error, ConfigurationError | NotFound):
        return codes.USAGE
    return codes.FAILED


def print_error(error: WarrenError) -> None:
    """To stderr: the message, one line for each detail, the next thing to do."""
    sys.stdout.flush()
    red, dim, plain = ("\x1b[1;31m", "\x1b[2m", "\x1b[0m") if _has_colours() else ("", "", "")
    lines = [f"{red}error:{plain} {error.message}", *(f"  {line}" for line in error.details)]
    if error.hint:
        lines.append(f"{dim}{error.hint}{plain}")
    print("\n".join(lines), file=sys.stderr)


def _missing_package(error: BaseException) -> str | None:
    """The package whose absence is the error's first cause; None where it is something else."""
    while error.__cause__ is not None:
        error = error.__cause__
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return package if find_spec(package) is None else None


def _not_installed(package: str, tokens: Sequence[str]) -> WarrenError:
    command = tokens[0] if tokens else ""
    install = install_command(command) or f"pip install . {IN_CLONE}"
    return ConfigurationError(
        f"`warren {command}` needs the Python package {package}, which is not installed",
        hint=f"Install it with: {install}",
    )


def _inner(error: Exception) -> Exception:
    """The first error inside groups of a task group."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _has_colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def _close_stdout() -> int:
    """Whoever read our output has gone; keep the interpreter from complaining at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return codes.OK
