"""What the operator of env workers lets runs' configs reach: a file that the worker reads at its start.

A config is written by whoever holds an API key, and the env worker acts on it with its own rights: it
sends requests, imports modules, opens files, starts programs. So a worker that plays the episodes of
several owners does only what this policy lists. Without a file nothing is listed.
"""

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from warren_schemas.base import Frozen, Listed
from warren_schemas.config.environment import SecretName
from warren_schemas.config.sandbox import (
    CellSeconds,
    DiskMib,
    Files,
    MemoryMib,
    OutputBytes,
    Processes,
)
from warren_schemas.fields.paths import AbsolutePath, absolute
from warren_schemas.isolation.agent_box import Box
from warren_schemas.isolation.kubernetes import Kubernetes

EVERYBODY = "*"
"""As an owner: all of them. As an environment: all of them."""

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:(\*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)")


def _url_prefix(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("expected http(s)://host[:port][/path]")
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        raise ValueError("a URL prefix has no user, password, query or fragment")
    return url


def _function_pattern(pattern: str) -> str:
    if not _FUNCTION.fullmatch(pattern):
        raise ValueError("expected module:function, or module:* for all functions of a module")
    return pattern


def _with_absolute_program(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command:
        raise ValueError("expected a program, and its arguments")
    absolute(command[0])
    return command


UrlPrefix = Annotated[str, AfterValidator(_url_prefix)]
FunctionPattern = Annotated[str, AfterValidator(_function_pattern)]
Command = Annotated[Listed[str], AfterValidator(_with_absolute_program)]
Owners = Annotated[Listed[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class SecretRule(Frozen):
    """Who may use a secret, and where its value may go."""

    owners: Owners
    """Owners of runs; `*` is everybody."""
    urls: Listed[UrlPrefix] = ()
    """Services that may be sent its value, as a key, by the beginning of their URLs."""
    environments: Listed[str] = ()
    """Environments whose code may have its value, by name; `*` is all of them."""

    @model_validator(mode="after")
    def _is_of_use(self) -> Self:
        if not self.urls and not self.environments:
            raise ValueError("give urls, environments, or both: this secret may go nowhere")
        return self


class ServiceRule(Frozen):
    """A service that configs may name: for rewards, or as a sandbox."""

    url: UrlPrefix
    """The beginning of its URL: scheme, host and port must be the same, the path may go on."""
    owners: Owners = (EVERYBODY,)
    """Owners of runs that may use it; `*` is everybody."""
    private: bool = False
    """Its address may be a private, loopback or link-local one."""


class CommandRule(Frozen):
    """A program that configs may have started as a server of tools, a process for each episode."""

    command: Command
    """Its absolute path, and all arguments: a config must say the very same."""
    owners: Owners = (EVERYBODY,)
    """Owners of runs that may start it; `*` is everybody."""


class MaxSandboxLimits(Frozen):
    """The most that configs may set as `limits` of each of their sandboxes."""

    cell_s: CellSeconds = 60.0
    memory_mib: MemoryMib = 2048
    processes: Processes = 64
    disk_mib: DiskMib = 256
    files: Files = 50_000
    output_bytes: OutputBytes = 65_536


class SandboxRules(Frozen):
    """What configs may name for sandboxes."""

    python: Listed[AbsolutePath] = ()
    """Interpreters, besides the one that a sandbox takes by itself."""
    libraries: Listed[AbsolutePath] = ()
    """Folders made by `pip install --target`."""
    images: Listed[Annotated[str, Field(min_length=1)]] = ()
    """Container images, letter by letter; they must be there, for none is pulled, unless `kubernetes.pull` says so."""
    limits: MaxSandboxLimits = Field(default_factory=MaxSandboxLimits)
    """The most that configs may ask; a config that sets none gets less where this is below its default."""


class AgentRules(Frozen):
    """What agents may use of the machine."""

    box: Box | None = None
    """The most that the program of an agent gets; every one runs in a box then. null: its class decides."""


class OperatorPolicy(Frozen):
    """What configs may reach on an env worker. What is not listed is refused."""

    trusts_configs: bool = False
    """Configs may reach whatever the worker itself can: for a deployment with one tenant. Then nothing else
    may be given, except `agents` and `kubernetes`."""
    secrets: dict[SecretName, SecretRule] = Field(default_factory=dict)
    """By name: `JUDGE` is the environment variable `WARREN_SECRET_JUDGE` of the worker."""
    services: Listed[ServiceRule] = ()
    """Services that configs may have asked."""
    functions: Listed[FunctionPattern] = ()
    """Reward functions, besides those that installed packages declare: `module:function`, or `module:*` for
    those that are defined in a module."""
    commands: Listed[CommandRule] = ()
    """Programs that configs may have started as servers of tools (MCP)."""
    data_root: AbsolutePath | None = None
    """The folder below which configs may name files; null: none."""
    sandbox: SandboxRules = Field(default_factory=SandboxRules)
    agents: AgentRules = Field(default_factory=AgentRules)
    kubernetes: Kubernetes | None = None
    """Where sandboxes of the tier kubernetes run; null: there is no such tier."""
    variables: Listed[VariableName] = ()
    """Environment variables that processes of environments get, besides the usual harmless ones. Names that
    begin with `WARREN_` are never passed on."""

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        others = sorted(self.model_fields_set - {"trusts_configs", "agents", "kubernetes"})
        if self.trusts_configs and others:
            raise ValueError(f"with trusts_configs, {', '.join(others)} would have no effect")
        hidden = [name for name in self.variables if name.upper().startswith("WARREN_")]
        if hidden:
            raise ValueError(f"variables: {', '.join(hidden)} can't be passed on")
        return self


TRUSTING = OperatorPolicy(trusts_configs=True)
"""For a worker whose only tenant is whoever started it."""
