"""What an episode may reach under a policy."""

from typing import Any

from tests.support.interacting import spec

from warren_env_worker.permissions.granting import granted
from warren_env_worker.permissions.permissions import Permissions
from warren_schemas.operator_policy import OperatorPolicy

JUDGE = "https://judge.example.org/v1/"
KEY = "WARREN_SECRET_JUDGE"
VALUE = "sk-0123456789"


def policy(**fields: Any) -> OperatorPolicy:
    return OperatorPolicy.model_validate(fields)


def permissions(
    owner: str = "ann", config: dict[str, Any] | None = None, **fields: Any
) -> Permissions:
    of = spec("math", run_owner=owner, environment_config=config or {})
    return granted(policy(**fields), of).permissions
