"""`warren env-worker`: hosts environments and takes their turns.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from warren_env_worker.settings import EnvWorkerSettings


def env_worker(
    *,
    broker: Annotated[str | None, Parameter(env_var="WARREN_BROKER_URL")] = None,
    env: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    only: bool = False,
    processes: int = 1,
    capacity: int = 1024,
) -> None:
    """Host environments and take their turns in the episodes of all runs.

    Start as many as you like, on any machine that reaches the broker: they share the work, and when
    one dies the others rebuild its episodes. Modules are found where you start it, too.

    For example:
        warren env-worker --broker amqp://localhost
        warren env-worker --broker amqp://localhost --env my_package.my_module:MyEnv
        warren env-worker --env hard=my_module:MyEnv --env easy=my_module:MyEasyEnv --only

    Parameters
    ----------
    broker
        Where RabbitMQ is, for example `amqp://user:password@host:5672/vhost`.
    env
        An environment class, as `module:Class` or `name=module:Class`; may be given several times.
    only
        Host what --env names, and not the environments that are installed.
    processes
        Child processes of each environment.
    capacity
        Most episodes of one environment that are live at once.
    """
    from warren.errors import ConfigurationError

    if broker is None:
        raise ConfigurationError(
            "An env worker needs a broker",
            hint="Give --broker amqp://host or set WARREN_BROKER_URL. To run everything in one"
            " process without a broker: warren up",
        )
    given: dict[str, object] = {
        "environments": env,
        "hosts_installed": not only,
        "n_processes": processes,
        "capacity": capacity,
    }
    _run(broker, _settings(given))


def _settings(given: dict[str, object]) -> "EnvWorkerSettings":
    from pydantic import ValidationError

    from warren.errors import ConfigurationError
    from warren_env_worker.settings import EnvWorkerSettings
    from warren_schemas.explain import explain

    try:
        return EnvWorkerSettings.model_validate(given)
    except ValidationError as error:
        details = explain(error, EnvWorkerSettings)
        raise ConfigurationError("These settings won't do", details=details) from error


def _run(broker_url: str, settings: "EnvWorkerSettings") -> None:
    import asyncio
    import logging

    import uvloop

    from warren.errors import WarrenError
    from warren_broker.errors import BrokerError
    from warren_broker.worker.lifecycle import until_stopped

    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_stopped(_serve(broker_url, settings)))
    except BrokerError as error:
        hint = "Start RabbitMQ, or correct --broker (WARREN_BROKER_URL)."
        raise WarrenError(str(error), hint=hint) from error


async def _serve(broker_url: str, settings: "EnvWorkerSettings") -> None:
    from warren_broker.connect import open_broker
    from warren_broker.worker.lifecycle import calm_garbage_collector
    from warren_env_worker.service import serve_env_worker

    calm_garbage_collector()
    async with open_broker(broker_url, name=settings.worker) as broker:
        await serve_env_worker(broker, settings)
