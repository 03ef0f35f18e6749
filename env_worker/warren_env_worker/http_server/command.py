"""`warren env serve`.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

from typing import Annotated

from cyclopts import Parameter

from warren_broker.options import UNLISTED, name_options
from warren_env_worker.http_server.settings import HttpServerSettings

name_options(
    HttpServerSettings,
    {
        "api_key": Parameter(env_var="WARREN_ENV_SERVER_KEY", show_default=False),
        "splits": Parameter(name="--split", negative=()),
        "n_processes": Parameter(name="--processes"),
        "config": UNLISTED,
    },
)
ServerOptions = Annotated[HttpServerSettings, Parameter(name="*")]
_DEFAULTS = HttpServerSettings()


def serve(environment: str, /, *, config: str = "{}", server: ServerOptions = _DEFAULTS) -> None:
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
    """
    from functools import partial

    from warren.settings import warren_home
    from warren_broker.worker.program import run_program
    from warren_env_worker.check.command import read_arguments
    from warren_env_worker.http_server.service import serve_environment
    from warren_env_worker.settings import EnvWorkerSettings

    settings = server.model_copy(update={"config": read_arguments(config)})
    hosting = EnvWorkerSettings(
        environments=(environment,), only_named=True, n_processes=settings.n_processes,
        capacity=settings.capacity, log_dir=warren_home() / "logs",
    )  # fmt: skip
    run_program(partial(serve_environment, settings, hosting), {})
