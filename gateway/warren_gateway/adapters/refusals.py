"""Errors about adapters as HTTP answers."""

from warren_gateway.adapters.problems import (
    AdapterInUse,
    NoSuchAdapter,
    UnusableAdapter,
    WrongAdapter,
)
from warren_schemas.http import Problem

ADAPTER_PROBLEMS = (AdapterInUse, NoSuchAdapter, UnusableAdapter, WrongAdapter)
_LISTED = "`warren adapters ls` lists yours."


def of_adapters(
    error: AdapterInUse | NoSuchAdapter | UnusableAdapter | WrongAdapter,
) -> tuple[int, Problem]:
    """Status and body."""
    message = f"{error}."
    match error:
        case NoSuchAdapter():
            message = f"There is no adapter {message}"
            return 404, Problem(code="no_such_adapter", message=message, hint=_LISTED)
        case AdapterInUse():
            return 409, Problem(code="adapter_in_use", message=message)
        case WrongAdapter():
            hint = "Correct it and upload it again; nothing was stored."
            return 422, Problem(code="wrong_adapter", message=message, hint=hint)
        case UnusableAdapter():
            message = "The config has 1 mistake."
            return 422, Problem(
                code="invalid_config", message=message, details=(str(error),), hint=_LISTED
            )
