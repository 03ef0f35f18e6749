"""The options of whatever runs a gateway: how they are called.

Invariant: importing this module loads neither the store nor the web server.
"""

from typing import Annotated

from cyclopts import Parameter

from warren_broker.options import UNLISTED, name_options
from warren_gateway.settings import GatewayOptions, GatewaySettings


def _in_home(_: object) -> str:
    """The same wherever the help is printed."""
    return "~/.warren"


_NAMES = {
    "home": Parameter(env_var="WARREN_HOME", show_default=_in_home),
    "runs_dir": Parameter(show_default=False),
    "archive_url": Parameter(name="--archive", env_var="WARREN_ARCHIVE_URL", show_default=False),
    "datasets_url": Parameter(name="--datasets", env_var="WARREN_DATASETS_URL", show_default=False),
    "adapters_url": Parameter(
        name="--uploaded-adapters", env_var="WARREN_ADAPTERS_URL", show_default=False
    ),
    "models_url": Parameter(
        name="--uploaded-models", env_var="WARREN_MODELS_URL", show_default=False
    ),
    "public_url": Parameter(env_var="WARREN_PUBLIC_URL", show_default=False),
}
name_options(GatewayOptions, _NAMES)
name_options(
    GatewaySettings,
    {
        **_NAMES,
        "store_url": Parameter(name="--store", env_var="WARREN_STORE_URL", show_default=False),
        "api_key": UNLISTED,
    },
)

OfGateway = Annotated[GatewaySettings, Parameter(name="*")]
"""All of them, as a parameter of a command; what was not given is not set."""
OfSite = Annotated[GatewayOptions, Parameter(name="*")]
"""Those of a gateway that shares its process with the workers: its store is its own."""
GATEWAY_DEFAULTS = GatewaySettings.model_construct()
SITE_DEFAULTS = GatewayOptions.model_construct()
