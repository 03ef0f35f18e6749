"""What can go wrong at the broker. All are picklable; `retryable` says if trying again can help.

BrokerError
├── Unroutable          nobody is behind this address (a home that is gone, a deleted queue)
├── BrokerUnavailable   the broker could not be reached, or did not confirm, before the deadline
├── BrokerClosed        this client was closed
├── NotAllowed          whoever asks may not do this (a remote worker, an API key)
└── InvalidBrokerUrl    this is no address of a broker
"""

from typing import ClassVar


class BrokerError(Exception):
    retryable: ClassVar[bool] = False


class Unroutable(BrokerError, LookupError):
    """Nobody is behind the address; the message is not stored anywhere."""


class BrokerUnavailable(BrokerError, ConnectionError):
    """No confirm before the deadline; the message may or may not have been stored."""

    retryable: ClassVar[bool] = True


class BrokerClosed(BrokerError):
    """The broker client was closed while this call was under way."""


class NotAllowed(BrokerError, PermissionError):
    """Refused, and it would be refused again; says what and why."""


class InvalidBrokerUrl(BrokerError, ValueError):
    """This is no address of a broker; says what one looks like."""
