"""The secrets that an environment behind an ORS server asks for.

Invariants: a value goes to the server of the config alone, in a request of its own session; where that server may send it
on, the config says, and under an operator's policy only hosts to which this worker itself may send it.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import orjson
from pydantic import Field

from warren.environment import ConfigError
from warren_env_worker.permissions.permissions import Permissions
from warren_schemas.fields.secret_variables import SecretVariable

Domain = Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$")]
Domains = Mapping[str, tuple[Domain, ...]]
"""By the name of the secret at the server."""
Place = Literal["header", "body"]


class Secrets(NamedTuple):
    values: Mapping[str, str]
    """By the name that the server knows; empty while tasks are loaded."""
    domains: Mapping[str, Sequence[str]]
    sent_in: Place

    @property
    def headers(self) -> dict[str, str]:
        """As servers of `openreward` read them, with the hosts to which each may go on."""
        if not self.values or self.sent_in == "body":
            return {}
        told = {name: self._told(name, value) for name, value in self.values.items()}
        return {"X-Secrets": base64.b64encode(orjson.dumps(told)).decode()}

    def _told(self, name: str, value: str) -> Mapping[str, object]:
        domains = self.domains.get(name)
        return {"value": value, **({} if domains is None else {"allowed_domains": list(domains)})}


def secrets_for(
    permissions: Permissions,
    url: str,
    variables: Mapping[str, SecretVariable],
    domains: Domains,
    sent_in: Place | None,
) -> Secrets:
    """Raises `ConfigError` for what is not allowed, and for what would have no effect."""
    _require_effect(variables, domains, sent_in)
    for name, hosts in domains.items():
        for host in hosts:
            _require_host(permissions, name, host, variables[name])
    keys = {name: permissions.service(url, held).key for name, held in variables.items()}
    return Secrets({name: key or "" for name, key in keys.items()}, domains, sent_in or "header")


def _require_effect(
    variables: Mapping[str, SecretVariable], domains: Domains, sent_in: Place | None
) -> None:
    if sent_in is not None and not variables:
        raise ConfigError("secrets_in has no effect without secrets: name them, or leave it out")
    if domains and sent_in == "body":
        raise ConfigError(
            "secret_domains has no effect with secrets_in: body, which has no place for them; leave one of them out"
        )
    for name in domains.keys() - variables.keys():
        raise ConfigError(f"secret_domains.{name} has no effect: secrets has no {name}")


def _require_host(permissions: Permissions, name: str, host: str, variable: SecretVariable) -> None:
    try:
        permissions.service(f"https://{host}/", variable)
    except ConfigError as error:
        raise ConfigError(f"secret_domains.{name}: {error}") from error
