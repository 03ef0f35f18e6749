"""Why a part of a site stopped, as an error that says the next thing to do."""

from pathlib import Path
from typing import cast

from pydantic import ValidationError

from warren.errors import ConfigurationError, WarrenError
from warren_schemas.text.explain import explain


def told(part: str, error: Exception, log_file: Path) -> WarrenError:
    """The first cause, for a person; `log_file` holds the rest."""
    from warren_gateway.api.listening import CannotListen  # a site begins without waiting for these
    from warren_gpu_worker.base_models import UnknownBaseModel
    from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken

    cause = _first(error)
    if isinstance(cause, WarrenError):
        return cause
    if isinstance(cause, UnknownBaseModel | SamplerBroken):
        hint = "Choose another one with --base-model; warren/tiny is built in."
        return ConfigurationError(" ".join(str(cause).split()), hint=hint)
    if isinstance(cause, ValidationError):
        hint = "`warren up --help` tells more."
        return ConfigurationError("These options won't do", details=explain(cause), hint=hint)
    if isinstance(cause, CannotListen):
        message = str(cause)
        return ConfigurationError(message[:1].upper() + message[1:])
    reason = str(cause) or type(cause).__name__
    return WarrenError(f"The {part} has stopped: {reason}", hint=f"The log: {log_file}")


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
