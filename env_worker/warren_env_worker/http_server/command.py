"""`warren env serve`.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from warren_env_worker.http_server.settings import HttpServerSettings

SplitNames = Annotated[tuple[str, ...], Parameter(name="--split", negative=())]


def serve(
    environment: str,
    /,
    *,
    config: str = "{}",
    split: SplitNames = (),
    host: str = "127.0.0.1",
    port: int = 8644,
    api_key: Annotated[
        str | None, Parameter(env_var="WARREN_ENV_SERVER_KEY", show_default=False)
    ] = None,
    max_turns: int = 256,
    capacity: int = 1024,
    processes: int = 1,
) -> None:
    """Serve an environment by the HTTP protocol for environments, for any trainer.

    Env workers play it as the environment `http` (docs/environments-http.md). It needs no broker and no gateway.

    For example:
        warren env serve my_module:MyEnv
        warren env serve my_module:MyEnv --config '{"size": 9}' --port 9000
        warren env check --url http://127.0.0.1:8644/

    Parameters
    ----------
    environment
        The class, as `module:Class`.
    config
        Arguments of its constructor, as JSON, where an episode's own config does not say otherwise.
    split
        A split to name; repeatable. Without it, those that the environment names itself, else train and test.
    host
        Address to listen at.
    port
        Port to listen at; 0 takes a free one.
    api_key
        Key that requests must bring as `Authorization: Bearer`; without one, everybody may ask who reaches the address.
    max_turns
        Turns of an episode; a longer one is truncated, and scored then.
    capacity
        Maximum number of live episodes; beyond it, new ones are answered with 503.
    processes
        Processes that host it.
    """
    given = {
        "config": config, "splits": split, "host": host, "port": port, "api_key": api_key,
        "max_turns": max_turns, "capacity": capacity, "n_processes": processes,
    }  # fmt: skip
    _serve(environment, given)


def _serve(environment: str, given: Mapping[str, object]) -> None:
    """Until the program is ended. Raises `ConfigurationError`."""
    from functools import partial

    from warren.settings import warren_home
    from warren_broker.worker.program import run_program
    from warren_env_worker.http_server.service import serve_environment
    from warren_env_worker.settings import EnvWorkerSettings

    settings = _settings(given)
    hosting = EnvWorkerSettings(
        environments=(environment,), only_named=True, n_processes=settings.n_processes,
        capacity=settings.capacity, log_dir=warren_home() / "logs",
    )  # fmt: skip
    run_program(partial(serve_environment, settings, hosting), {})


def _settings(given: Mapping[str, object]) -> "HttpServerSettings":
    from pydantic import ValidationError

    from warren.errors import ConfigurationError
    from warren_env_worker.check.command import read_arguments
    from warren_env_worker.http_server.settings import HttpServerSettings
    from warren_schemas.text.explain import explain

    arguments = read_arguments(str(given["config"]))
    try:
        return HttpServerSettings.model_validate({**given, "config": arguments})
    except ValidationError as error:
        raise ConfigurationError("It can't be served so", details=explain(error)) from error
