"""The operator's policy, from its file.

Invariant: a file that can't be read, or says what is not understood, stops the worker; it never starts
with another policy than it was told.
"""

from pathlib import Path

from pydantic import ValidationError

from warren.errors import ConfigurationError
from warren_env_worker.permissions.policy_check import mistakes
from warren_schemas.config_files.yaml_text import YamlError, parse_yaml
from warren_schemas.operator_policy import OperatorPolicy
from warren_schemas.text.explain import explain


def policy_of(path: Path | None, *, otherwise: OperatorPolicy) -> OperatorPolicy:
    """What the file says, or `otherwise` without one. Raises `ConfigurationError`."""
    if path is None:
        return otherwise
    try:
        found = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}", hint=_HINT) from error
    except (YamlError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}", hint=_HINT) from error
    try:
        policy = OperatorPolicy.model_validate({} if found is None else found)
    except ValidationError as error:
        details = explain(error, OperatorPolicy)
        raise ConfigurationError(
            f"{path} is no operator's policy", details=details, hint=_HINT
        ) from error
    if wrong := mistakes(policy):
        raise ConfigurationError(f"{path} would not do what it says", details=wrong, hint=_HINT)
    return policy


_HINT = "docs/trust.md shows one; --operator-policy (WARREN_OPERATOR_POLICY) names it."
