"""From the name of an environment to its `module:Class`: of those that came with packages, and of foreign ones that were
installed."""

from importlib.metadata import entry_points

from warren.errors import ConfigurationError
from warren_env_worker.foreign import virtual_environments
from warren_schemas.text.explain import nearest

GROUP = "warren.environments"
FOREIGN_GROUP = "warren.foreign_environments"
"""Of adapters to packages that `warren env install` installs."""


def installed() -> dict[str, str]:
    """References (`module:Class`) by name."""
    own = {point.name: point.value for point in entry_points(group=GROUP)}
    foreign = entry_points(group=FOREIGN_GROUP)
    return own | {p.name: p.value for p in foreign if virtual_environments.is_installed(p.name)}


def named(environment: str) -> tuple[str, str]:
    """The name and the reference that `module:Class`, `name=module:Class` or the name of an installed one stands for; the
    name is empty where it is the class that says it. Raises `ConfigurationError`."""
    known = installed()
    if environment in known:
        return environment, known[environment]
    if environment in virtual_environments.names():
        raise ConfigurationError(
            f"{environment} is not installed on this machine",
            hint=f"Install it: warren env install {environment}",
        )
    name, _, reference = environment.rpartition("=")
    if not all(reference.partition(":")):
        match = nearest(environment, [*known, *virtual_environments.names()])
        raise ConfigurationError(
            f"{environment!r} names no environment{f'; did you mean {match}?' if match else ''}",
            hint="Write module:Class, as in my_module:MyEnv, or the name of an installed one.",
        )
    return name, reference
