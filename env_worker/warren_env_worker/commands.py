"""`warren env-worker`: hosts environments and takes their turns.

Invariant: importing this module loads no broker's client, so that help is quick.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from warren_env_worker.options import ENV_DEFAULTS, EnvOptions
from warren_schemas.ids import new_worker_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from warren.settings import Settings
    from warren_env_worker.settings import EnvWorkerSettings
    from warren_schemas.operator_policy import OperatorPolicy


def env_worker(
    *,
    broker: Annotated[str | None, Parameter(env_var="WARREN_BROKER_URL")] = None,
    gateway: str | None = None,
    api_key: str | None = None,
    options: EnvOptions = ENV_DEFAULTS,
) -> None:
    """Host environments and play their turns in the episodes of all runs.

    Start any number, on any machine that reaches the broker: they share the work, and when one dies
    the others rebuild its episodes. Modules in the current folder are found too.

    Without access to the broker (a laptop, for example), use --gateway: the worker connects by WebSocket
    and plays the episodes of your own runs, for environments with `workers: own`.

    For example:
        warren env-worker --broker amqp://localhost
        warren env-worker --broker amqp://localhost --env my_package.my_module:MyEnv
        warren env-worker --gateway https://warren.example.org --env my_module:MyEnv --only
        warren env-worker --env hard=my_module:MyEnv --env easy=my_module:MyEasyEnv --only

    Parameters
    ----------
    broker
        URL of RabbitMQ, for example `amqp://user:password@host:5672/vhost`.
    gateway
        Address of a gateway, for example `https://warren.example.org`, instead of a broker.
    api_key
        API key of the gateway (default: WARREN_API_KEY, which `ps` doesn't show, or this machine's key
        file).
    """
    from warren.errors import ConfigurationError
    from warren.settings import warren_home
    from warren_env_worker.permissions.policy_file import policy_of
    from warren_schemas.operator_policy import TRUSTING, OperatorPolicy

    if broker is None and gateway is None:
        raise ConfigurationError(
            "An env worker needs a broker, or a gateway",
            hint="Give --broker amqp://host or set WARREN_BROKER_URL. Without access to a broker:"
            " --gateway https://host. To run everything in one process: warren up",
        )
    given = {"worker": new_worker_id("env"), "log_dir": warren_home() / "logs"}
    settings = options.model_copy(update=given)
    if gateway is not None:
        from warren.settings import find_settings

        policy = policy_of(settings.operator_policy, otherwise=TRUSTING)  # its owner plays alone
        where = find_settings(gateway, api_key)
        _run(partial(_serve_remotely, where, settings, policy), _AT_GATEWAY)
    elif broker is not None:
        policy = policy_of(settings.operator_policy, otherwise=OperatorPolicy())
        _run(partial(_serve, broker, settings, policy), _AT_BROKER)


_AT_BROKER = "Start RabbitMQ, or correct --broker (WARREN_BROKER_URL)."
_AT_GATEWAY = "Correct --gateway or the API key (--api-key, WARREN_API_KEY), or start the gateway."


def _run(serve: "Callable[[], Coroutine[object, None, None]]", hint: str) -> None:
    from warren_broker.errors import BrokerError
    from warren_broker.worker.program import run_program

    run_program(serve, {BrokerError: hint})


async def _serve(broker_url: str, settings: "EnvWorkerSettings", policy: "OperatorPolicy") -> None:
    from warren_broker.connect import open_broker
    from warren_broker.worker.lifecycle import calm_garbage_collector
    from warren_env_worker.service import serve_env_worker

    calm_garbage_collector()
    async with open_broker(broker_url, name=settings.worker) as broker:
        await serve_env_worker(broker, settings, policy=policy)


async def _serve_remotely(
    where: "Settings", settings: "EnvWorkerSettings", policy: "OperatorPolicy"
) -> None:
    from warren_broker.worker.lifecycle import calm_garbage_collector
    from warren_env_worker.remote_worker import serve_remote

    calm_garbage_collector()
    await serve_remote(where, settings, policy)
