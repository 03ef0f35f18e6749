"""Options that several commands share."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter


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
RETRY_S = 2.0
"""A person at a terminal would rather hear at once that nobody answers."""
