"""Options that several commands share."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from warren.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Gateway:
    url: Annotated[str | None, Parameter(help="Address of the gateway (default: WARREN_URL).")] = (
        None
    )
    api_key: Annotated[
        str | None, Parameter(help="API key (default: WARREN_API_KEY, or this machine's key file).")
    ] = None


HERE = Gateway()
GatewayOptions = Annotated[Gateway, Parameter(name="*")]
AsJson = Annotated[bool, Parameter(name="--json", help="Print JSON, for programs.")]

WithWhom = Annotated[str | None, Parameter(name="USER", help="With whom.")]
Everybody = Annotated[bool, Parameter(help="With everybody who has a key.")]


def require_whom(user: str | None, *, everybody: bool) -> None:
    """Raises `ConfigurationError` unless it is either a user or everybody."""
    if (user is None) is not everybody:
        raise ConfigurationError(
            "Say with whom: either the name of a user or --everybody",
            hint="`warren users ls` shows admins the names.",
        )
