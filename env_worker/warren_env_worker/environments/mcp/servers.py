"""The MCP servers in an environment's config, and what the client's process is told of them.

Invariant: a URL, a key or a command that the operator does not allow is refused before anything is asked or started.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from warren.environment import ConfigError
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.permissions.service import FAILED, Service, ServiceFailed
from warren_schemas.base import Frozen, Listed
from warren_schemas.config.environment import SecretName
from warren_schemas.fields.secret_variables import SecretVariable
from warren_schemas.operator_policy import VariableName

ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,31}$")]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]


class McpFailed(Exception):
    """A server can't be had, or fails."""


class _Server(Frozen):
    tools: Listed[str] = ()
    """Names of those that the policy is told of; none means all."""


class HttpServer(_Server):
    """Of the streamable HTTP transport."""

    kind: Literal["http"] = "http"
    url: str
    key_variable: SecretVariable | None = None
    """Environment variable of the env worker whose value is sent as a bearer token."""
    headers: dict[HeaderName, SecretVariable] = Field(default_factory=dict)
    """Headers whose values are those of the env worker's variables."""
    sessions: bool = False
    """Begin a session, as before 2026-07-28, also with a server that can do without: its state hangs on it."""


class StdioServer(_Server):
    """A program that is started for each episode."""

    kind: Literal["stdio"] = "stdio"
    command: Annotated[Listed[str], Field(min_length=1)]
    variables: dict[VariableName, SecretName] = Field(default_factory=dict)
    """Environment variables whose values are secrets of the run, by their names."""


McpServer = Annotated[HttpServer | StdioServer, Field(discriminator="kind")]


class Reached:
    """One server, which this run may reach. Raises `ConfigError`."""

    def __init__(
        self, name: str, server: HttpServer | StdioServer, permissions: Permissions
    ) -> None:
        self.name = name
        self.server = server
        self._keys: dict[str, Service] = {}
        if isinstance(server, StdioServer):
            permissions.require_command(server.command)
            return
        self._service = permissions.service(server.url, None)
        if server.key_variable is not None:
            self._keys["Authorization"] = permissions.service(server.url, server.key_variable)
        for header, variable in server.headers.items():
            self._keys[header] = permissions.service(server.url, variable)

    async def told(self, secrets: Mapping[str, str]) -> dict[str, object]:
        """For the client's process. `secrets` are the run's. Raises `ConfigError`, `McpFailed`."""
        if isinstance(self.server, StdioServer):
            return {
                "command": self.server.command,
                "variables": {
                    v: self._secret(s, secrets) for v, s in self.server.variables.items()
                },
            }
        try:
            addresses = await self._service.addresses()
        except ServiceFailed as error:
            raise McpFailed(f"{self.name}: {FAILED}") from error
        return {
            "url": str(self._service.url),
            "addresses": addresses,
            "headers": {header: self._value(header) for header in self._keys},
            "sessions": self.server.sessions,
        }

    def _value(self, header: str) -> str:
        key = self._keys[header].key or ""
        is_token = header == "Authorization" and header not in getattr(self.server, "headers", {})
        return f"Bearer {key}" if is_token else key

    def _secret(self, name: str, secrets: Mapping[str, str]) -> str:
        if name not in secrets:
            raise ConfigError(
                f"servers.{self.name}.variables: {name} is none of the environment's `secrets`; list it there"
            )
        return secrets[name]
