"""The end of a run in a few lines."""

from collections.abc import Mapping

from warren.display.output import Output, print_json
from warren.display.words import count, decimal, duration, how_evaluated
from warren_schemas.config import TrainConfig
from warren_schemas.events import RunOutcome, RunState
from warren_schemas.http import RunResult, RunView


def print_summary(view: RunView, output: Output, *, as_json: bool) -> None:
    """What came of a run that has ended; as JSON the run itself, on one line."""
    if as_json:
        print_json(view)
        return
    output.line()
    if view.state is not RunState.COMPLETED:
        output.line(f"Run {view.id} {view.state}{f': {view.error}' if view.error else ''}", "red")
        return
    result = view.result or RunResult()
    _print_end(view, result, output)
    rows = result_rows(result, view.config)
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        output.line(f"  {label.ljust(width)}  {value}")
    output.line()
    output.line(f"See its curves: warren tensorboard {view.id}")


def _print_end(view: RunView, result: RunResult, output: Output) -> None:
    match result.outcome:
        case RunOutcome.NOTHING_LEARNED:
            output.line(f"Run {view.id} ended without learning anything", "bold yellow")
        case RunOutcome.NOTHING_TO_DO:
            output.line(f"Run {view.id} completed at once", "yellow")
        case _:
            output.line(f"Run {view.id} completed", "green")
    if result.remark:
        output.line(f"  {result.remark}", "yellow")


def result_rows(result: RunResult, config: TrainConfig | None) -> list[tuple[str, str]]:
    """Label and value of everything that a result tells but the remark."""
    how = how_evaluated(config)
    rows = [
        (f"reward before{how}", decimal(result.reward_before)),
        (f"reward after{how}", decimal(result.reward_after)),
        ("episodes", _with_failures(result)),
        ("dropped groups", _counted(result.dropped_groups) or "0"),
        ("updates", count(result.updates)),
        ("tokens sampled", count(result.tokens)),
        ("max staleness", count(result.max_staleness_seen)),
        ("wall time", duration(result.wall_s)),
    ]
    return [*rows, ("policy", result.policy_url)] if result.policy_url else rows


def _with_failures(result: RunResult) -> str:
    if not result.failed_episodes:
        return count(result.episodes)
    return f"{count(result.episodes)} ({count(result.failed_episodes)} failed: {_counted(result.failures)})"


def _counted(reasons: Mapping[str, int]) -> str:
    """The most frequent one first."""
    pairs = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count(n)}" for name, n in pairs)
