"""From the operator's policy to what one episode may reach; in the supervisor, which has the secrets.

Invariants: the run's owner decides, as the gateway wrote it into the episode's spec, and never the
config; a child is told the values of those secrets alone that this run names and may use; a run that
names a secret that is not for it is refused in the same words as for one that is not there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from warren.environment import ConfigError
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, ServiceGrant
from warren_env_worker.permissions.secrets import value_of
from warren_schemas.episode import EpisodeSpec
from warren_schemas.fields.secret_variables import PREFIX
from warren_schemas.operator_policy import EVERYBODY, OperatorPolicy


@dataclass(frozen=True, slots=True)
class Granted:
    permissions: Permissions
    secrets: Mapping[str, str]
    """What the environment's own code gets, by name."""


def granted(policy: OperatorPolicy, spec: EpisodeSpec) -> Granted:
    """Raises `ConfigError` for a secret that the run may not have."""
    box, kubernetes = policy.agents.box, policy.kubernetes
    if policy.trusts_configs:
        keys = tuple(_all_keys(spec))
        permissions = Permissions(
            spec.run_owner, is_trusted=True, keys=keys, agent_box=box, kubernetes=kubernetes
        )
    else:
        permissions = Permissions(
            spec.run_owner,
            services=tuple(
                ServiceGrant(rule.url, rule.private)
                for rule in policy.services
                if _is_for(rule.owners, spec.run_owner)
            ),
            keys=tuple(_bound_keys(policy, spec)),
            functions=policy.functions,
            commands=tuple(
                rule.command for rule in policy.commands if _is_for(rule.owners, spec.run_owner)
            ),
            data_root=policy.data_root,
            pythons=policy.sandbox.python,
            libraries=policy.sandbox.libraries,
            images=policy.sandbox.images,
            sandbox_limits=tuple(policy.sandbox.limits.model_dump().items()),
            agent_box=box,
            kubernetes=kubernetes,
        )
    return Granted(permissions, _secrets(policy, spec))


def _secrets(policy: OperatorPolicy, spec: EpisodeSpec) -> Mapping[str, str]:
    found = {name: value_of(name) for name in spec.secrets if _may_have(policy, spec, name)}
    missing = [name for name in spec.secrets if found.get(name) is None]
    if missing and policy.trusts_configs:
        wanted = ", ".join(PREFIX + name for name in missing)
        raise ConfigError(
            f"the env worker lacks a secret: start it with {wanted} in its environment"
        )
    if missing:
        raise ConfigError(
            f"secrets: {', '.join(missing)}: this env worker has none of this name for this run in"
            f" {spec.environment}; its operator's policy binds secrets to owners and environments"
        )
    return {name: value for name, value in found.items() if value is not None}


def _may_have(policy: OperatorPolicy, spec: EpisodeSpec, name: str) -> bool:
    rule = policy.secrets.get(name)
    return policy.trusts_configs or (
        rule is not None
        and _is_for(rule.owners, spec.run_owner)
        and _is_for(rule.environments, spec.environment)
    )


def _all_keys(spec: EpisodeSpec) -> Iterator[KeyGrant]:
    """Those of this worker that the config names."""
    for variable in sorted(_variables_in(spec.environment_config)):
        if value := value_of(variable.removeprefix(PREFIX)):
            yield KeyGrant(variable, value, None)


def _bound_keys(policy: OperatorPolicy, spec: EpisodeSpec) -> Iterator[KeyGrant]:
    for key in _all_keys(spec):
        rule = policy.secrets.get(key.variable.removeprefix(PREFIX))
        if rule is not None and rule.urls and _is_for(rule.owners, spec.run_owner):
            yield replace(key, urls=rule.urls)


def _variables_in(config: JsonValue) -> set[str]:
    """All that a config may mean as the variable of a secret, wherever it stands."""
    if isinstance(config, str):
        return {config} if config.startswith(PREFIX) else set()
    if not isinstance(config, dict | list):
        return set()
    below = config.values() if isinstance(config, dict) else config
    return {found for each in below for found in _variables_in(each)}


def _is_for(names: tuple[str, ...], name: str) -> bool:
    return EVERYBODY in names or (name != "" and name in names)
