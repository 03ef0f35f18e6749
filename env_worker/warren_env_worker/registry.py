"""Which environments a worker hosts, under which names.

Invariants: no user code is imported in this process; no two environments have one name. What the
user asked for by name must work before anything is taken from a queue; what merely happens to be
installed is started when its first episode comes.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from warren.errors import ConfigurationError
from warren_env_worker.host.environment_class.naming import installed, named
from warren_env_worker.host.host import Host
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.host_services.shared import hosting_services
from warren_env_worker.output.log import MakeHearing, nobody
from warren_env_worker.rubrics import REFERENCE as RUBRIC
from warren_env_worker.rubrics import Rubrics
from warren_env_worker.settings import EnvWorkerSettings
from warren_env_worker.shape import shape_of
from warren_schemas.config.numbers import RESERVED, is_reserved
from warren_schemas.control import EnvironmentShape
from warren_schemas.operator_policy import OperatorPolicy

HINT = "Name one, as in --env my_module:MyEnv"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hosted:
    hosts: dict[str, Host]
    """By name."""
    shapes: tuple[EnvironmentShape, ...]
    rubrics: Rubrics


@asynccontextmanager
async def hosted(
    settings: EnvWorkerSettings,
    policy: OperatorPolicy,
    make_hearing: MakeHearing = nobody,
) -> AsyncGenerator["Hosted"]:
    """What is hosted, running until the context is left; each process is heard by one that this makes, where its
    output is kept. Raises `ConfigurationError` for a name that is none, `EnvironmentUnusable` for one that can't be
    hosted."""
    unusable: ConfigurationError | None = None
    async with hosting_services(), asyncio.TaskGroup() as group:
        hosts = _Hosts(group, settings, policy, make_hearing)
        try:
            await _assemble(hosts, settings)
            yield Hosted(hosts.hosts, await asyncio.to_thread(hosts.shapes), hosts.rubrics())
        except ConfigurationError as error:  # to be raised outside, not in a group
            unusable = error
        finally:
            hosts.dismiss()
    if unusable is not None:
        raise unusable


async def _assemble(hosts: "_Hosts", settings: EnvWorkerSettings) -> None:
    if not settings.only_named:
        for name, reference in installed().items():
            hosts.add(name, reference)
    for environment in settings.environments:
        await hosts.add_asked_for(environment)
    if not hosts.hosts:
        raise EnvironmentUnusable("there is no environment to host", hint=HINT)


class _Hosts:
    def __init__(
        self,
        group: asyncio.TaskGroup,
        settings: EnvWorkerSettings,
        policy: OperatorPolicy,
        make_hearing: MakeHearing,
    ) -> None:
        self._make_hearing = make_hearing
        self.hosts: dict[str, Host] = {}
        self._references: dict[str, str] = {}
        self._group = group
        self._settings = settings
        self._policy = policy
        self._running: list[asyncio.Task[None]] = []

    def add(self, name: str, reference: str) -> None:
        self._name(name, reference, self._run(reference))

    async def add_asked_for(self, environment: str) -> None:
        """`module:Class` or `name=module:Class`, or the name of an installed one; started at once."""
        if environment in self.hosts:
            return
        name, reference = named(environment)
        host = self._run(reference)
        description = await host.start()
        self._name(name or description.name, reference, host)
        log.info(
            "hosting %s (%s, version %s)", name or description.name, reference, description.version
        )

    def shapes(self) -> tuple[EnvironmentShape, ...]:
        """Reads the sources."""
        return tuple(shape_of(name, reference) for name, reference in self._references.items())

    def dismiss(self) -> None:
        for task in self._running:
            task.cancel()

    def rubrics(self) -> Rubrics:
        """Their process is started for the first episode that has a rubric."""
        return Rubrics(self._run(RUBRIC, n_processes=1))

    def _run(self, reference: str, n_processes: int | None = None) -> Host:
        settings = self._settings
        host = Host(
            reference,
            policy=self._policy,
            n_processes=n_processes or settings.n_processes,
            log_dir=settings.log_dir,
            make_hearing=self._make_hearing,
        )
        self._running.append(self._group.create_task(host.run(), name=f"host {reference}"))
        return host

    def _name(self, name: str, reference: str, host: Host) -> None:
        if is_reserved(name):
            raise EnvironmentUnusable(
                f"no environment may be called {name}: names that begin with {RESERVED} are Warren's",
                hint=f"Give it another name, as in --env other={reference}",
            )
        if name in self.hosts:
            raise EnvironmentUnusable(
                f"two environments are called {name}: {self._references[name]} and {reference}",
                hint=f"Give one another name, as in --env other={reference}",
            )
        self.hosts[name] = host
        self._references[name] = reference
