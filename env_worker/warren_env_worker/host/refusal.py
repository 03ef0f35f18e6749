"""What user code did wrong, as one line for a person: never a traceback."""

import traceback
from types import FrameType

from warren.environment import ConfigError, NoDemonstrations, NotReplayable, TaskError
from warren_env_worker.foreign.package_process import ProcessLost
from warren_env_worker.permissions.secrets import cut, shortened, without_run_secrets
from warren_schemas.episode import FailureKind

MAX_REASON_CHARS = 300
_OWN_WORDS = (ConfigError, NoDemonstrations, NotReplayable, ProcessLost, TaskError)
"""Whose text is a sentence by itself."""


class Refusal(Exception):
    """A call that fails for a reason that we can name."""

    def __init__(self, kind: FailureKind, reason: str, *, is_retryable: bool = True) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.is_retryable = is_retryable


def config_refusal(reason: str) -> Refusal:
    return Refusal(FailureKind.ENVIRONMENT_CONFIG, reason, is_retryable=False)


def error_refusal(reason: str) -> Refusal:
    return Refusal(FailureKind.ENVIRONMENT_ERROR, reason)


def blame(error: BaseException, package: str) -> Refusal:
    """The refusal for whatever user code of this package raised."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ConfigError | NoDemonstrations):
        return config_refusal(one_line(error))
    if isinstance(error, TaskError):
        return Refusal(FailureKind.ENVIRONMENT_ERROR, one_line(error), is_retryable=False)
    if isinstance(error, NotReplayable):
        return Refusal(FailureKind.NOT_REPLAYABLE, one_line(error))
    if isinstance(error, ProcessLost):
        return Refusal(FailureKind.LOST, one_line(error))
    return error_refusal(f"{one_line(error)} ({place(error, package)})")


def one_line(error: BaseException) -> str:
    """`ValueError: no such move`, cut to a readable length."""
    text = " ".join(without_run_secrets(str(error)).split()).encode(errors="replace").decode()
    name = type(error).__name__
    line = text if isinstance(error, _OWN_WORDS) else f"{name}: {text}"
    return shortened(line, MAX_REASON_CHARS)


def in_its_own_words(error: ConfigError) -> str:
    """One line for who wrote the config: of its words and ours, whatever secrets this process has.

    To cut a secret out of it would tell the writer of a config that a guess was right.
    """
    line = " ".join(str(error).split()).encode(errors="replace").decode()
    return cut(line, MAX_REASON_CHARS)


def place(error: BaseException, package: str) -> str:
    """File and line of the innermost frame of the user's package, or of all if it has none."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(frame, line) for frame, line in frames if _package(frame) == package]
    frame, line = (own or frames)[-1]
    return f"{frame.f_code.co_filename}:{line}"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
