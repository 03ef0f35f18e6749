"""The handle of a sweep: a group of runs that were submitted under one name.

Invariant: submitting a sweep again under its name gives the same runs, whoever died in between: each run has an
idempotency key of the sweep's name and its number.
"""

import hashlib
import secrets
from collections.abc import Sequence

from pydantic import ValidationError

from warren.connection.transport import Transport
from warren.errors import ConfigurationError
from warren.pending import pending
from warren.run import Run
from warren.run_configs.sweeps.comparing import RunComparison, compare_runs
from warren_schemas.config import TrainConfig
from warren_schemas.http import RunView, SubmitRun
from warren_schemas.text.explain import explain


class Sweep:
    """`runs` are in the order of its values, the last key changing fastest."""

    def __init__(self, name: str, runs: Sequence[Run]) -> None:
        self.name = name
        self.runs = tuple(runs)

    def __repr__(self) -> str:
        return f"<Sweep {self.name!r} of {len(self.runs)} runs>"

    @pending
    async def compare(self, metric: str | None = None, *, lowest: bool = False) -> RunComparison:
        """Its runs by the best value of a metric, with the keys in which they differ."""
        for run in self.runs:
            await run.refresh()
        return await compare_runs(self.runs, metric, lowest=lowest)

    @pending
    async def cancel(self, *, save: bool = False) -> None:
        """Cancel all that go on. Cancelling again changes nothing."""
        for run in self.runs:
            if not (await run.refresh()).state.is_final:
                await run.cancel(save=save)


async def submit_sweep(
    transport: Transport, name: str | None, configs: Sequence[TrainConfig], priority: int
) -> Sweep:
    """One after the other; under the same name the same. Raises `ConfigurationError`."""
    chosen = name or f"sweep-{secrets.token_hex(4)}"
    bodies = sweep_bodies(chosen, configs, priority)
    views = [await transport.post("/v1/runs", RunView, body) for body in bodies]
    return Sweep(chosen, [Run(transport, view) for view in views])


def sweep_bodies(
    name: str, configs: Sequence[TrainConfig], priority: int = 0
) -> tuple[SubmitRun, ...]:
    """Raises `ConfigurationError` for a name that can't be."""
    try:
        return tuple(
            SubmitRun(
                config=config, idempotency_key=_key(name, number), priority=priority, sweep=name
            )
            for number, config in enumerate(configs)
        )
    except ValidationError as error:
        lines = explain(error, SubmitRun)
        raise ConfigurationError("This can't be a sweep", details=lines) from error


def _key(name: str, number: int) -> str:
    return hashlib.sha256(f"sweep/{name}/{number}".encode()).hexdigest()
