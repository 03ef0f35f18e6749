"""`warren gateway`: one gateway in a process of its own.

Nothing heavy is imported before the command runs, so that `warren --help` stays quick.
"""

import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import Parameter

from warren_gateway.options import GATEWAY_DEFAULTS, OfGateway

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
        _fail(
            "the gateway needs a broker",
            "Give --broker amqp://host or set WARREN_BROKER_URL; `warren up` runs without one.",
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
    import asyncio
    import logging

    from warren_broker.connect import without_password

    _configure_logs()
    logging.getLogger(__name__).info(
        "starting: broker %s, store %s, port %d",
        without_password(broker_url), without_password(settings.store_url), settings.port,
    )  # fmt: skip

    import uvloop

    from warren_broker.errors import BrokerError
    from warren_broker.worker.lifecycle import until_stopped
    from warren_gateway.auth import InvalidKey
    from warren_gateway.service import CannotListen
    from warren_gateway.store.store import StoreUnavailable

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_stopped(_serve(broker_url, settings)))
    except BrokerError as error:
        _fail(str(error), "Start RabbitMQ, or correct --broker (WARREN_BROKER_URL).")
    except StoreUnavailable as error:
        _fail(str(error), "Start the database, or correct --store (WARREN_STORE_URL).")
    except InvalidKey as error:
        _fail(str(error), "Correct WARREN_API_KEY, or unset it to have a key made.")
    except CannotListen as error:
        _fail(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _fail(
            f"can't use {error.filename}: {error.strerror}",
            "Give a folder that you may write to, with --home (WARREN_HOME).",
        )
    except ExceptionGroup:
        logging.getLogger(__name__).exception("the gateway broke down")
        raise


def _configure_logs() -> None:
    """Ours from INFO on, those of libraries from WARNING on."""
    import logging

    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for package in ("warren_broker", "warren_gateway"):
        logging.getLogger(package).setLevel(logging.INFO)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # its failures are told by our own words


async def _serve(broker_url: str, settings: "GatewaySettings") -> None:
    from warren_broker.connect import open_broker
    from warren_broker.worker.lifecycle import calm_garbage_collector
    from warren_gateway.service import serve_gateway

    calm_garbage_collector()
    async with open_broker(broker_url, name="gateway") as broker:
        await serve_gateway(broker, settings)


def _fail(message: str, hint: str | None = None) -> NoReturn:
    """End with one line that says what is wrong, and one that says what to do."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    raise SystemExit(1)
