"""The end of a run in a few lines."""

from warren.cli.output import Output, print_json
from warren.cli.words import count, decimal, duration
from warren_schemas.events import RunState
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
    output.line(f"Run {view.id} completed", "green")
    rows = result_rows(view.result or RunResult())
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        output.line(f"  {label.ljust(width)}  {value}")
    output.line()
    output.line(f"See its curves: warren tensorboard {view.id}")


def result_rows(result: RunResult) -> list[tuple[str, str]]:
    """Label and value of everything that a result tells."""
    rows = [
        ("reward before", decimal(result.reward_before)),
        ("reward after", decimal(result.reward_after)),
        ("episodes", _with_failures(result)),
        ("updates", count(result.updates)),
        ("tokens sampled", count(result.tokens)),
        ("max staleness", count(result.max_staleness_seen)),
        ("wall time", duration(result.wall_s)),
    ]
    return [*rows, ("policy", result.policy_url)] if result.policy_url else rows


def _with_failures(result: RunResult) -> str:
    failures = f" ({count(result.failed_episodes)} failed)" if result.failed_episodes else ""
    return f"{count(result.episodes)}{failures}"
