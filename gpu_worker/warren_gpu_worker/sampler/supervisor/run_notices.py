"""What a sampler has to say to the logs of the runs that it samples for."""

from collections import OrderedDict

from warren_broker.run_logs.run_logger import RunLogger
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded, Failed, Generate
from warren_schemas.ids import RunId

MAX_RUNS = 1024

run_log = RunLogger(__name__)


class RunNotices:
    def __init__(self) -> None:
        self._newest: OrderedDict[RunId, int] = OrderedDict()
        """The newest policy version that each run has asked for here."""

    def begins(self, item: Generate) -> None:
        """A turn is sampled here."""
        run, policy = item.envelope.run, item.spec.policy
        if run is None or policy.min_version <= self._newest.get(run, -1):
            return
        self._newest[run] = policy.min_version
        if len(self._newest) > MAX_RUNS:
            self._newest.popitem(last=False)
        run_log.info(
            run, f"samples from policy version {policy.min_version} of {policy.base_model}"
        )

    def follows(self, item: Item) -> None:
        """This is published for a turn."""
        if isinstance(item, EpisodeEnded) and isinstance(item.outcome, Failed):
            kind, reason = item.outcome.kind, item.outcome.reason
            run_log.warning(item.envelope.run, f"a turn failed: {kind}: {reason}")
