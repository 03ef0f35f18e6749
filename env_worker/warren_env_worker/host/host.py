"""The host of one environment: its episodes, spread over a pool of child processes."""

import asyncio
from collections.abc import Container, Sequence
from pathlib import Path

from warren_broker.worker.child import Child
from warren_env_worker.host.in_process import CLIENTS, InProcess
from warren_env_worker.host.process import EnvironmentProcess
from warren_env_worker.host.protocol import Description
from warren_env_worker.host.request import Request
from warren_env_worker.host.startup import SpawnChild
from warren_env_worker.output.log import MakeHearing, OutputLog, log_path, nobody
from warren_schemas.operator_policy import OperatorPolicy

NOTHING_LISTED = OperatorPolicy()


class Host:
    """Answers requests while `run` runs. A slot is one live episode, bound to one process."""

    def __init__(
        self,
        reference: str,
        *,
        policy: OperatorPolicy = NOTHING_LISTED,
        n_processes: int = 1,
        log_dir: Path | None = None,
        make_hearing: MakeHearing = nobody,
        spawn_child: SpawnChild = Child.spawn,
        clients: Container[str] = CLIENTS,
    ) -> None:
        """`reference` is `module:Class`; it is imported in the children only, unless it is one of `clients`.
        `policy` says what its episodes' configs may reach.

        What it prints goes to its file in `log_dir`, and to one `Hear` for each process, or where our output
        goes.
        """
        self._processes: Sequence[EnvironmentProcess | InProcess]
        log = OutputLog(log_path(log_dir, reference), make_hearing) if log_dir else None
        if reference in clients:
            self._processes = [InProcess(reference, policy, log)]
        else:
            self._processes = [
                EnvironmentProcess(reference, policy, log, spawn_child=spawn_child)
                for _ in range(n_processes)
            ]
        self._n_open = [0] * len(self._processes)
        self._beside = set[int]()
        self._n_slots = 0

    @property
    def description(self) -> Description | None:
        """What the children host; None until the first one has said it."""
        return self._processes[0].description or self._processes[-1].description

    @property
    def has_capacity(self) -> bool:
        """Whether a new episode may begin here; the first one tells how many may."""
        described = self.description
        limit = described.max_episodes if described else 1
        return limit is None or sum(self._n_open) < limit

    async def run(self) -> None:
        """Until cancelled; the children end with it."""
        async with asyncio.TaskGroup() as group:
            for number, process in enumerate(self._processes):
                group.create_task(process.run(), name=f"environment process {number}")

    async def start(self) -> Description:
        """Start the first child now and hear what it hosts. Raises `EnvironmentUnusable`."""
        return await self._processes[0].start()

    def open(self) -> int:
        """A slot in the process that has fewest."""
        slot = self._next_slot()
        self._n_open[slot % len(self._processes)] += 1
        return slot

    def open_beside(self) -> int:
        """A slot for what is no episode, and takes no place of one."""
        slot = self._next_slot()
        self._beside.add(slot)
        return slot

    def _next_slot(self) -> int:
        process = min(range(len(self._processes)), key=self._n_open.__getitem__)
        self._n_slots += 1
        return self._n_slots * len(self._processes) + process

    def submit_request(self, request: Request) -> None:
        """One request of a slot at a time; `request.answer` is called with what came of it."""
        self._processes[request.slot % len(self._processes)].put(request)

    def close(self, slot: int) -> None:
        """Give the slot back; its episode is closed if it is still live."""
        process = slot % len(self._processes)
        if slot in self._beside:
            self._beside.remove(slot)
        else:
            self._n_open[process] -= 1
        self._processes[process].put(slot)
