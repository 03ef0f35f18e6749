"""What an episode may reach, for the code that acts on its config: ask here before acting.

Code that a config tells to open a file, call a function, ask a service or start a program takes
`current()` while it is made from that config, keeps it, and asks it. All methods raise `ConfigError`
for what is not allowed, in words that don't tell what there is besides.

Invariant: a process that plays episodes of a deployment may do nothing outside of an episode's own
permissions; only a process that a person started for themselves (a test, `warren env check`) trusts itself.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, BinaryIO

from warren.environment import ConfigError
from warren_env_worker.permissions.files import folder_below, open_below
from warren_env_worker.permissions.secrets import value_of
from warren_schemas.fields.secret_variables import PREFIX
from warren_schemas.isolation.agent_box import Box
from warren_schemas.isolation.kubernetes import Kubernetes

if TYPE_CHECKING:  # an HTTP client is heavy: only for who asks a service
    from warren_env_worker.permissions.service import Service

FUNCTIONS = "warren.rewards"
"""Entry points by which installed packages declare reward functions."""
_SETS = "its operator may, in the file of `--operator-policy`, set"


@dataclass(frozen=True, slots=True)
class ServiceGrant:
    url: str
    """The beginning of its URL."""
    may_be_private: bool


@dataclass(frozen=True, slots=True)
class KeyGrant:
    """A secret that may be sent to services as a key."""

    variable: str
    value: str = field(repr=False)
    """Empty while tasks are loaded, and on the way to the episode's process."""
    urls: tuple[str, ...] | None
    """The beginnings of their URLs; None: to all that the run may ask."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """It travels to the child with the episode's start, the values of keys apart from it."""

    owner: str = field(default="", compare=False)
    """The run's. Those who may reach the same share the tasks that they loaded, and no requests."""
    is_trusted: bool = False
    """Whatever this process can reach."""
    services: tuple[ServiceGrant, ...] = ()
    keys: tuple[KeyGrant, ...] = ()
    functions: tuple[str, ...] = ()
    """`module:function`, or `module:*`."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Programs with their arguments."""
    data_root: str | None = None
    pythons: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    sandbox_limits: tuple[tuple[str, float], ...] = ()
    """The most that a config may set, by the name of the limit; the default of each that is not named."""
    agent_box: Box | None = None
    """The most that the program of an agent gets; None: its class decides."""
    kubernetes: Kubernetes | None = None
    """Where pods of sandboxes may be started."""

    @classmethod
    def unpacked(cls, fields: dict[str, Any]) -> "Permissions":
        """From JSON."""
        box, kubernetes = fields["agent_box"], fields["kubernetes"]
        return cls(
            owner=fields["owner"],
            is_trusted=fields["is_trusted"],
            services=tuple(ServiceGrant(**grant) for grant in fields["services"]),
            keys=tuple(_key_grant(**grant) for grant in fields["keys"]),
            functions=tuple(fields["functions"]),
            commands=tuple(tuple(command) for command in fields["commands"]),
            data_root=fields["data_root"],
            pythons=tuple(fields["pythons"]),
            libraries=tuple(fields["libraries"]),
            images=tuple(fields["images"]),
            sandbox_limits=tuple((name, most) for name, most in fields["sandbox_limits"]),
            agent_box=None if box is None else Box.model_validate(box),
            kubernetes=None if kubernetes is None else Kubernetes.model_validate(kubernetes),
        )

    @property
    def values_of_keys(self) -> dict[str, str]:
        """By variable."""
        return {key.variable: key.value for key in self.keys}

    def with_values(self, of_keys: Mapping[str, str]) -> "Permissions":
        if not self.keys:
            return self
        keys = (replace(key, value=of_keys.get(key.variable, "")) for key in self.keys)
        return replace(self, keys=tuple(keys))

    def without_values(self) -> "Permissions":
        return self.with_values({})

    def open_file(self, path: str) -> BinaryIO:
        """A file that the config names, to be closed by the caller."""
        if self.is_trusted:
            try:
                return open(path, "rb")
            except (OSError, ValueError) as error:
                raise ConfigError(f"{path} can't be read: {error}") from error
        if self.data_root is None:
            raise ConfigError(
                f"{path}: this env worker has no data root, so a config names no files; {_SETS} `data_root`"
            )
        found = open_below(self.data_root, path)
        if found is None:
            raise ConfigError(f"{path}: there is no such file below the env worker's data root")
        return found

    def folder(self, path: str) -> str:
        """A folder that the config names, as an absolute path."""
        if not self.is_trusted and self.data_root is None:
            raise ConfigError(
                f"{path}: this env worker has no data root, so a config names no folders; {_SETS} `data_root`"
            )
        if self.is_trusted or self.data_root is None:
            found = os.path.realpath(path)
            if not os.path.isdir(found):
                raise ConfigError(f"{path} is no folder on this env worker")
            return found
        below = folder_below(self.data_root, path)
        if below is None:
            raise ConfigError(f"{path}: there is no such folder below the env worker's data root")
        return below

    def function(self, named: str, what: str = "reward function") -> tuple[str, bool]:
        """`module:function`, given so or by the name of an entry point; and whether it must be defined in that very
        module, for it was not allowed by its own name. `what` it is, for messages."""
        points = _declared()
        if named in points:
            return points[named], False
        if ":" not in named:
            raise ConfigError(f"no installed package declares the {what} {named}")
        if self.is_trusted or named in points.values() or named in self.functions:
            return named, False
        module, _, name = named.partition(":")
        if f"{module}:*" in self.functions and "." not in name:
            return named, True
        raise ConfigError(
            f"{named} is no {what} that this env worker's operator allows"
            f" (functions of the policy, or entry points of {FUNCTIONS})"
        )

    def service(self, url: str, key_variable: str | None) -> "Service":
        from warren_env_worker.permissions.service import Service
        from warren_env_worker.permissions.urls import covers, parsed

        try:
            found = parsed(url)
        except ValueError as error:
            raise ConfigError(f"url: {error}") from error
        grants = [grant for grant in self.services if covers(grant.url, found)]
        if not (self.is_trusted or grants):
            raise ConfigError(
                f"{found} is no service that this env worker's operator allows this run; {_SETS} `services`"
            )
        key = None
        if key_variable is not None:
            key, urls = self._key(key_variable)
            if not (urls is None or any(covers(prefix, found) for prefix in urls)):
                raise _not_for_this_run(key_variable)
        may_be_private = self.is_trusted or any(grant.may_be_private for grant in grants)
        return Service(found, key, may_be_private)

    def require_python(self, path: str) -> None:
        if not (self.is_trusted or path in self.pythons):
            raise ConfigError(f"python: {path} is not one that this env worker's operator allows")

    def require_command(self, command: Sequence[str]) -> None:
        if not (self.is_trusted or tuple(command) in self.commands):
            raise ConfigError(
                f"command: {' '.join(command)} is not allowed for this run by this env worker's operator"
            )

    def require_libraries(self, path: str) -> None:
        if not (self.is_trusted or path in self.libraries):
            raise ConfigError(
                f"libraries: {path} is not one that this env worker's operator allows"
            )

    def require_image(self, image: str) -> None:
        if not (self.is_trusted or image in self.images):
            raise ConfigError(
                f"image: {image} is not allowed by this env worker's operator (sandbox.images)"
            )

    def _key(self, variable: str) -> tuple[str, tuple[str, ...] | None]:
        """Its value, and the URLs that it may be sent to."""
        grant = next((key for key in self.keys if key.variable == variable), None)
        if grant is not None:
            return grant.value, grant.urls
        if not self.is_trusted:
            raise _not_for_this_run(variable)
        own = value_of(variable.removeprefix(PREFIX))
        if own is None:
            raise ConfigError(f"the env worker lacks a secret: {variable} is not set")
        return own, None


@cache
def _declared() -> Mapping[str, str]:
    """Reward functions of installed packages, which takes milliseconds to find out."""
    return {point.name: point.value for point in entry_points(group=FUNCTIONS)}


def _not_for_this_run(variable: str) -> ConfigError:
    return ConfigError(
        f"{variable} is no secret that this env worker's operator lets this run send there"
    )


def _key_grant(variable: str, value: str, urls: list[str] | None) -> KeyGrant:
    return KeyGrant(variable, value, None if urls is None else tuple(urls))


TRUSTED = Permissions(is_trusted=True)
NOTHING = Permissions()
_current: ContextVar[Permissions | None] = ContextVar("permissions", default=None)
_otherwise = TRUSTED


def current() -> Permissions:
    """Of the episode whose environment is being made."""
    return _current.get() or _otherwise


@contextmanager
def acting(permissions: Permissions) -> Generator[None]:
    """What is made meanwhile has these permissions."""
    token = _current.set(permissions)
    try:
        yield
    finally:
        _current.reset(token)


def acting_in(context: Context, permissions: Permissions) -> None:
    """What is done there, and in copies of it, has these permissions."""
    context.run(_current.set, permissions)


def confine() -> None:
    """From now on, this process reaches nothing but what is granted to an episode."""
    global _otherwise
    _otherwise = NOTHING
