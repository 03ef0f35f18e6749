"""What parts say of runs, on its way to these runs' logs: bounded, counted, harmless."""

import asyncio
from collections.abc import Sequence

from tests.support.patience import PATIENCE_S

from warren_broker.inbox import follow
from warren_broker.port import Broker
from warren_broker.run_logs.lines import BURST, LINES_PER_S, MAX_WAITING, RunLines
from warren_broker.run_logs.run_logger import RunLogger
from warren_broker.run_logs.sending import sending_run_logs
from warren_broker.topology import run_log
from warren_schemas.events import MAX_LOG_CHARS, LogComponent, LogLevel, RunLogged
from warren_schemas.ids import RunId

RUN, OTHER = RunId("run_1"), RunId("run_2")
log = RunLogger(__name__)


def say(lines: RunLines, n: int, now_s: float) -> None:
    for number in range(n):
        lines.add(LogLevel.INFO, f"line {number}", at_s=0.0, now_s=now_s)


def test_a_talkative_run_is_bounded_and_what_is_left_out_is_counted() -> None:
    lines = RunLines(0.0)
    say(lines, 10_000, 0.0)
    first = lines.take()
    assert len(first) == BURST < MAX_WAITING
    assert lines.n_logged == 10_000
    say(lines, 10_000, 2.0)
    second = lines.take()
    assert len(second) == 2.0 * LINES_PER_S
    assert second[0].number == 10_001  # so a reader knows that 9,800 are missing
    say(lines, 1, 2.0)
    assert lines.take() == () and lines.n_logged == 20_001


def test_a_line_is_one_line_and_cannot_talk_to_a_terminal() -> None:
    lines = RunLines(0.0)
    lines.add(LogLevel.INFO, "a\n\x1b[2Jb\tc\x9b\ud800", at_s=0.0, now_s=0.0)
    lines.add(LogLevel.INFO, "x" * 10 * MAX_LOG_CHARS, at_s=0.0, now_s=0.0)
    told, long = lines.take()
    assert told.text == "a\\x0a\\x1b[2Jb  c\\x9b?"
    assert len(long.text) == MAX_LOG_CHARS


async def heard(broker: Broker, run: RunId, until: int) -> Sequence[RunLogged]:
    """What lies in the run's log, up to the item that knows of so many lines."""
    items: list[RunLogged] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        follow(broker, run_log(run), RunLogged, start="first") as inbox,
    ):
        async for claims in inbox:
            items += [claim.item for claim in claims]
            for claim in claims:
                claim.done()
            if items[-1].n_logged == until:
                break
    return items


async def test_each_run_gets_its_own_lines(broker: Broker) -> None:
    await broker.declare(run_log(RUN), run_log(OTHER))
    async with sending_run_logs(broker, LogComponent.TRAINER, "trainer_1"):
        log.info(RUN, "ours")
        log.warning(OTHER, "theirs")
        log.info(None, "nobody's")
        await asyncio.to_thread(log.error, RUN, "from a thread")
    ours, theirs = await heard(broker, RUN, 2), await heard(broker, OTHER, 1)
    said = [(line.level, line.text) for item in ours for line in item.lines]
    assert said == [(LogLevel.INFO, "ours"), (LogLevel.ERROR, "from a thread")]
    assert [line.text for item in theirs for line in item.lines] == ["theirs"]
    assert {(item.component, item.worker) for item in ours} == {(LogComponent.TRAINER, "trainer_1")}
    log.info(RUN, "said outside of any part, which harms nobody")


async def test_how_many_lines_are_missing_is_told_without_another_line(broker: Broker) -> None:
    await broker.declare(run_log(RUN))
    async with sending_run_logs(broker, LogComponent.ENV_WORKER, "env_1"):
        for number in range(1000):
            log.info(RUN, str(number))
        items = await heard(broker, RUN, 1000)
    assert sum(len(item.lines) for item in items) <= BURST + LINES_PER_S


async def test_a_log_that_is_gone_takes_nothing_from_others(broker: Broker) -> None:
    await broker.declare(run_log(RUN))
    async with sending_run_logs(broker, LogComponent.SAMPLER, "sampler_1"):
        log.info(OTHER, "its log was deleted")
        log.info(RUN, "ours")
        items = await heard(broker, RUN, 1)
    assert items[-1].lines[0].text == "ours"
