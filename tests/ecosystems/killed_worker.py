"""Episodes whose env worker is killed in their middle: they move to another one."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.interacting import Policy, endings, sampling, start, start_all
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import signal_group, spawn
from tests.system.test_env_worker import COMMAND, ROOT, heard_from

from warren_broker.connect import open_broker
from warren_schemas.episode import Completed, EpisodeSpec, Generate
from warren_schemas.ids import new_id, new_run_id
from warren_schemas.operator_policy import OperatorPolicy


@dataclass(frozen=True)
class TwoWorkers:
    """The first of two takes all episodes, and is killed as one of them comes to `turn`."""

    rabbit: PrivateRabbit
    folder: Path
    reference: str
    """Of the environment, as module:Class."""
    listed: Mapping[str, object] | None = None
    """What the operator's policy of both allows."""
    turn: int = 3
    n_episodes: int = 40
    """1 where they take long to begin: a worker keeps what it took until all of it has begun, and what was killed before is begun
    anew and not recovered."""

    async def rewards(self, of: EpisodeSpec, policy: Policy) -> set[float]:
        """Of all episodes: each has ended, and some on the other worker, which played them anew so far."""
        workers = [spawn(self._command, log_path=self.folder / "first", folder=ROOT)]
        run = new_run_id()
        starts = [start(new_id("ep"), of, run=run) for _ in range(self.n_episodes)]
        try:
            async with open_broker(self.rabbit.url, name="test") as broker:
                lost = await heard_from(broker, workers[0])

                def killing(item: Generate) -> str:
                    if item.home == lost and item.turn == self.turn:
                        signal_group(workers[0], signal.SIGKILL)
                    return policy(item)

                async with sampling(broker, killing):
                    await start_all(broker, starts)  # the first takes them: there is no other yet
                    workers.append(
                        spawn(self._command, log_path=self.folder / "second", folder=ROOT)
                    )
                    heir = await heard_from(broker, workers[1])
                    ended = await endings(broker, len(starts), run=run)
        finally:
            for worker in workers:
                signal_group(worker, signal.SIGKILL)
                worker.wait()
        outcomes = [item.outcome for item in ended]
        completed = [outcome for outcome in outcomes if isinstance(outcome, Completed)]
        assert len(completed) == len(outcomes), outcomes
        assert heir in {item.worker for item in ended}
        assert any(item.spec.n_recoveries_left == 2 for item in ended)
        return {round(outcome.reward, 6) for outcome in completed}

    @property
    def _command(self) -> list[str]:
        command = [*COMMAND, "--broker", self.rabbit.url, "--only", "--env", self.reference]
        if self.listed is None:
            return command
        path = self.folder / "policy.yaml"
        listed = OperatorPolicy.model_validate(self.listed)
        path.write_text(listed.model_dump_json(exclude_unset=True))
        return [*command, "--operator-policy", str(path)]
