"""`warren ors-server`: serves environments by the Open Reward Standard.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from warren_broker.options import name_options
from warren_env_worker.options import ENV_DEFAULTS, EnvOptions
from warren_env_worker.ors_server.settings import OrsServerSettings

if TYPE_CHECKING:
    from warren_env_worker.settings import EnvWorkerSettings
    from warren_schemas.operator_policy import OperatorPolicy

name_options(
    OrsServerSettings,
    {"api_key": Parameter(env_var="WARREN_ORS_SERVER_KEY", show_default=False)},
)
ServerOptions = Annotated[OrsServerSettings, Parameter(name="*")]
_DEFAULTS = OrsServerSettings()


def ors_server(*, server: ServerOptions = _DEFAULTS, options: EnvOptions = ENV_DEFAULTS) -> None:
    """Serve environments to any client of the Open Reward Standard (ORS).

    Everything that an env worker could host is served: the built-in environments, installed ones, and what
    --env names. Needs no broker and no gateway.

    For example:
        warren ors-server
        warren ors-server --env my_module:MyEnv --only --port 9000
        warren ors-server --settings served.yaml --host 0.0.0.0 --seed 7
    """
    from functools import partial

    from warren.settings import warren_home
    from warren_broker.worker.program import run_program
    from warren_env_worker.permissions.policy_file import policy_of
    from warren_schemas.operator_policy import TRUSTING

    policy = policy_of(
        options.operator_policy, otherwise=TRUSTING
    )  # the operator wrote the configs
    hosting = options.model_copy(update={"log_dir": warren_home() / "logs"})
    run_program(partial(_serve, server, hosting, policy), {})


async def _serve(
    server: OrsServerSettings, hosting: "EnvWorkerSettings", policy: "OperatorPolicy"
) -> None:
    from warren_env_worker.ors_server.service import serve_ors

    await serve_ors(server, hosting, policy)
