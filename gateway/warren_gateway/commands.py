"""`warren gateway`: one gateway in a process of its own.

Nothing heavy is imported before the command runs, so that `warren --help` stays quick.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from warren_gateway.options import GATEWAY_DEFAULTS, OfGateway
from warren_schemas.errors import ConfigurationError, WarrenError

if TYPE_CHECKING:
    from warren_gateway.settings import GatewaySettings


def gateway(
    *,
    broker: Annotated[str | None, Parameter(env_var="WARREN_BROKER_URL")] = None,
    options: OfGateway = GATEWAY_DEFAULTS,
) -> None:
    """Serve the HTTP API and drive the runs.

    Workers find the gateway through the broker, so start them with the same --broker. The first
    start creates an API key in $WARREN_HOME/api-key; set WARREN_API_KEY to use your own
    key (`wk_<id>_<secret>`).

    For example:
        warren gateway --broker amqp://localhost
        warren gateway --broker amqps://ann:password@rabbit --store postgresql://ann@db/warren

    Parameters
    ----------
    broker
        URL of RabbitMQ, for example `amqp://user:password@host:5672/vhost`.
    """
    if broker is None:
        raise ConfigurationError(
            "the gateway needs a broker",
            hint="Give --broker amqp://host or set WARREN_BROKER_URL; `warren up` runs without one.",
        )
    _run(broker, _settings(options))


def _settings(options: "GatewaySettings") -> "GatewaySettings":
    """What was given; the rest follows from the home folder of this moment."""
    import os

    from warren_gateway.settings import GatewaySettings

    given = {name: getattr(options, name) for name in options.model_fields_set}
    key = os.environ.get("WARREN_API_KEY") or None
    return GatewaySettings.model_validate(given | {"api_key": key})


def _run(broker_url: str, settings: "GatewaySettings") -> None:
    from warren_broker.errors import BrokerError
    from warren_broker.worker.program import Hints, run_program
    from warren_gateway.access.key import InvalidKey
    from warren_gateway.api.listening import CannotListen
    from warren_gateway.store.store import StoreUnavailable

    hints: Hints = {
        BrokerError: "Start RabbitMQ, or correct --broker (WARREN_BROKER_URL).",
        StoreUnavailable: "Start the database, or correct --store (WARREN_STORE_URL).",
        InvalidKey: "Correct WARREN_API_KEY, or unset it to have a key made.",
        CannotListen: None,
    }
    try:
        run_program(partial(_serve, broker_url, settings), hints)
    except OSError as error:
        if error.filename is None:
            raise
        raise WarrenError(
            f"can't use {error.filename}: {error.strerror}",
            hint="Give a folder that you may write to, with --home (WARREN_HOME).",
        ) from error


async def _serve(broker_url: str, settings: "GatewaySettings") -> None:
    from warren_broker.connect import open_broker
    from warren_broker.worker.lifecycle import calm_garbage_collector
    from warren_gateway.service import serve_gateway

    calm_garbage_collector()
    async with open_broker(broker_url, name="gateway") as broker:
        await serve_gateway(broker, settings)
