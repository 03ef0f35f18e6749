"""What processes that run environments inherit of this process's variables.

Invariant: no credential of Warren's (whatever begins with `WARREN_`: the broker's URL with its
password, keys, secrets) and, under a policy, nothing else that is not known to be harmless.
"""

import os
from collections.abc import Mapping

from warren_schemas.operator_policy import OperatorPolicy

HARMLESS = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "TEMP",
        "TMP", "PWD", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NO_COLOR", "HF_HOME", "HF_HUB_OFFLINE", "XDG_CACHE_HOME",
        "MPLBACKEND", "CUDA_VISIBLE_DEVICES", "MALLOC_ARENA_MAX",
        "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
    }
)  # fmt: skip
_HARMLESS_PREFIXES = ("LC_", "PYTHON", "OMP_", "MKL_", "OPENBLAS_")
_OURS = "WARREN_"
_NO_SECRETS = frozenset({"WARREN_HOME"})
"""Of ours: where packages of environments are installed."""


def child_variables(policy: OperatorPolicy) -> Mapping[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _NO_SECRETS
        or (not name.startswith(_OURS) and (policy.trusts_configs or _may_pass(name, policy)))
    }


def passes_always(name: str) -> bool:
    return name in HARMLESS or name.startswith(_HARMLESS_PREFIXES)


def _may_pass(name: str, policy: OperatorPolicy) -> bool:
    return passes_always(name) or name in policy.variables
