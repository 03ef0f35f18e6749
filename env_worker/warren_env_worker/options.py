"""The options of whatever runs an env worker: how they are called.

Invariant: importing this module loads no broker's client.
"""

from typing import Annotated

from cyclopts import Parameter

from warren_broker.options import UNLISTED, name_options
from warren_env_worker.settings import EnvWorkerSettings

name_options(
    EnvWorkerSettings,
    {
        "environments": Parameter(name="--env", negative=()),
        "only_named": Parameter(name="--only"),
        "n_processes": Parameter(name="--processes"),
        "operator_policy": Parameter(
            name="--operator-policy", env_var="WARREN_OPERATOR_POLICY", show_default=False
        ),
        "log_dir": UNLISTED,
        "worker": UNLISTED,
    },
)

EnvOptions = Annotated[EnvWorkerSettings, Parameter(name="*")]
"""All of them, as a parameter of a command."""
ENV_DEFAULTS = EnvWorkerSettings()
