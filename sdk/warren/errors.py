"""What can go wrong between a user and the gateway. All are picklable; each says what to do next.

WarrenError
├── ConfigurationError     a config, an address or an argument is wrong (ValueError)
├── GatewayUnreachable     nobody answered in time (ConnectionError); trying again may help
├── GatewayError           the gateway answered, but not with what was asked for
│   ├── AuthenticationError    it does not accept the API key, or there is none
│   ├── NotFound               it knows no such thing (LookupError)
│   └── GatewayBusy            it can't serve at the moment; trying again helps
├── RunEndedBadly          the run has no result to give
│   ├── RunFailed              it failed
│   └── RunCancelled           it was cancelled
├── OpFailed               an op of a model that you train had no effect
└── NotAwaited             `await` was forgotten (AttributeError)

`retryable` is decided by the type, never by the text of a message.
"""

from typing import ClassVar

from warren_schemas.errors import ConfigurationError, WarrenError

__all__ = [
    "AuthenticationError",
    "ConfigurationError",
    "GatewayBusy",
    "GatewayError",
    "GatewayUnreachable",
    "NotAwaited",
    "NotFound",
    "OpFailed",
    "RunCancelled",
    "RunEndedBadly",
    "RunFailed",
    "WarrenError",
]


class GatewayUnreachable(WarrenError, ConnectionError):
    """No answer from the gateway before the deadline."""

    retryable: ClassVar[bool] = True


class GatewayError(WarrenError):
    """An answer that is no success; `status` is the HTTP status, `code` the gateway's own word."""

    status: int = 0
    code: str = ""


class AuthenticationError(GatewayError):
    """The API key is missing, wrong, or not allowed to do this."""


class NotFound(GatewayError, LookupError):
    """The gateway has no such thing, or it belongs to somebody else."""


class GatewayBusy(GatewayError):
    """The gateway can't serve at the moment (HTTP 429, 502, 503, 504)."""

    retryable: ClassVar[bool] = True

    retry_after_s: float | None = None
    """How long the gateway asked to wait."""


class RunEndedBadly(WarrenError):
    """A run that has no result to give; `run` is its id."""

    run: str = ""


class RunFailed(RunEndedBadly):
    """The run failed; the message holds the reason."""


class RunCancelled(RunEndedBadly):
    """Somebody cancelled the run."""


class OpFailed(WarrenError):
    """An op of a model that you train had no effect; the model lives on."""

    category: str = "server"
    """`user` where the same op would fail again."""


class NotAwaited(WarrenError, AttributeError):
    """An answer was used that nobody has awaited yet."""
