"""What this worker has to say to the logs of the runs whose episodes it plays: that it plays them, which ones fail and
why, and what their environments print.

Invariants: a printed line goes to the run whose episode printed it, as its tag tells, and to no other: the tag
is put before each line by the process that reads the episode's output, out of reach of what the episode
does; what follows where a long line was cut is dropped, for it begins with what the episode chose.
A line without a tag, of code that several episodes share for instance, goes to no run. The secrets that an
episode was told are cut out before (`output.episode`); it knows no others.
"""

import re
from collections import OrderedDict

from warren_broker.run_logs.run_logger import RunLogger
from warren_broker.run_logs.sending import RunLogs, logs_of_this_component
from warren_env_worker.interaction import run_of
from warren_env_worker.output.lines import WholeLines
from warren_env_worker.successor import Taken
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded, Failed
from warren_schemas.events import LogLevel
from warren_schemas.ids import GroupId, RunId

MAX_GROUPS = 65_536
"""Newest groups whose lines find their run."""
MAX_RUNS = 1024
_TAGGED = re.compile(r"\[(group_\w+) (member [^\]]*)\] ?(.*)")

run_log = RunLogger(__name__)


class RunNotices:
    def __init__(self) -> None:
        self._groups: OrderedDict[GroupId, RunId] = OrderedDict()
        self._runs: OrderedDict[tuple[RunId, str], None] = OrderedDict()
        """With the environment."""
        self._logs: RunLogs | None = logs_of_this_component()

    def begins(self, item: Taken) -> None:
        """An episode gets a live environment here."""
        run, environment = run_of(item), item.spec.environment
        self._groups[item.spec.group] = run
        if len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)
        if (run, environment) not in self._runs:
            self._runs[run, environment] = None
            run_log.info(run, f"plays episodes of {environment}")
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)

    def follows(self, item: Item) -> None:
        """This is published for an episode."""
        if isinstance(item, EpisodeEnded) and isinstance(item.outcome, Failed):
            spec, outcome = item.spec, item.outcome
            where = f"{spec.environment}, {spec.task.split} {spec.task.index}, member {spec.member}"
            run_log.warning(
                item.envelope.run, f"an episode failed ({where}): {outcome.kind}: {outcome.reason}"
            )

    def hear(self) -> "Hearing":
        """Of one process of environments: it is told what that prints, from a thread of its own."""
        return Hearing(self._groups, self._logs)


class Hearing:
    def __init__(self, groups: OrderedDict[GroupId, RunId], logs: RunLogs | None) -> None:
        self._groups = groups
        self._logs = logs
        self._lines = WholeLines(drops_rest=True)

    def __call__(self, printed: bytes) -> None:
        """Called by one thread at a time."""
        if self._logs is None:
            return
        for line in self._lines.add(printed):
            if (found := _TAGGED.fullmatch(line.decode(errors="replace"))) is None:
                continue
            if (run := self._groups.get(GroupId(found[1]))) is not None:
                self._logs.add(run, LogLevel.INFO, f"[{found[2]}] {found[3]}")
