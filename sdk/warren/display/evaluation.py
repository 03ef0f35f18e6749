"""Results of evaluations and comparisons as tables."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from warren.comparing import Comparison, PairedTest, TaskDifference
from warren.display.output import Output
from warren.display.words import count, decimal
from warren_schemas.http import EvaluationReport, EvaluationSummary, Scores, TaskScores

_NO_CATEGORY = "(no category)"


def print_report(report: EvaluationReport, output: Output) -> None:
    output.line(title(report), "bold")
    ks = _shown_ks(report.scores)
    columns = ["", "tasks", "episodes", "failed", "reward", *(f"pass@{k}" for k in ks)]
    rows = [_row(name, scores, ks) for name, scores in _lines(report)]
    output.table(columns, rows, right=columns[1:])
    output.line(
        "± is the standard error, clustered by task; an episode solves its task with a reward of at"
        f" least {report.solved_at:g}.",
        "dim",
    )
    for kind, n in report.scores.failures.items():
        output.line(f"{count(n)} failed with {kind} and count as no reward.")
    if told := _without(report.n_incomplete_groups):
        output.line(f"{told}.")
    if metrics := report.scores.metrics:
        rows = [[name, decimal(m.mean), count(m.n_episodes)] for name, m in metrics.items()]
        output.table(["metric", "mean", "episodes that report it"], rows, right=["mean"])


def print_tasks(report: EvaluationReport, output: Output) -> None:
    """A line for each task."""
    output.line(title(report), "bold")
    names = {task.environment for task in report.tasks}
    columns = ["task", "category", "samples", "failed", "reward", "solved"]
    rows = [_task_row(task, report.solved_at, is_one=len(names) == 1) for task in report.tasks]
    output.table(columns, rows, right=columns[2:])
    output.line(
        f"solved: of its samples, those with a reward of at least {report.solved_at:g}.", "dim"
    )


def print_compared_tasks(comparison: Comparison, output: Output) -> None:
    """A line for each task that both have, the greatest loss first."""
    output.line(f"A: {title(comparison.baseline)}")
    output.line(f"B: {title(comparison.other)}")
    names = {task.environment for task in comparison.tasks}
    columns = ["task", "category", "A", "B", "B - A", "solved in A", "solved in B", ""]
    rows = [_difference_row(task, is_one=len(names) == 1) for task in comparison.tasks]
    output.table(columns, rows, right=columns[2:7])
    changes = Counter(task.change for task in comparison.tasks)
    output.line(
        f"Tasks solved in B and not in A: {count(changes['solved'])}; in A and no longer in B: {count(changes['lost'])}."
        " A task is solved if most of its samples solve it."
    )


def print_comparison(comparison: Comparison, output: Output) -> None:
    of_a, of_b = comparison.n_incomplete_baseline, comparison.n_incomplete_other
    output.line(f"A: {title(comparison.baseline)}{_without(of_a, '; ')}")
    output.line(f"B: {title(comparison.other)}{_without(of_b, '; ')}")
    columns = ["", "tasks", "A", "B", "B - A", "95 % interval", "p"]
    rows = [
        _test_row("all", comparison.test),
        *(_test_row(each.category or _NO_CATEGORY, each.test) for each in comparison.categories),
    ]
    output.table(columns, rows, right=columns[1:])
    how = "every" if comparison.test.method == "exact" else "20,000 random"
    output.line(
        "Mean rewards of the tasks that both have, paired by task; p is two-sided, of a sign-flip permutation"
        f" test with {how} assignment{'' if how == 'every' else 's'} of signs.",
        "dim",
    )
    if comparison.n_only_baseline or comparison.n_only_other:
        output.line(
            f"Left out: {count(comparison.n_only_baseline)} tasks that A alone has, and"
            f" {count(comparison.n_only_other)} that B alone has."
        )


def title(of: EvaluationSummary) -> str:
    """Which evaluation it is, and how far it got."""
    state = of.state.value.replace("_", " ")
    if of.of_recorded:
        return (
            f"{of.run}:{of.number}, recorded episodes: {state}, {count(of.n_planned)} episodes, up to {of.samples} in a"
            " group"
        )
    return (
        f"{of.run}:{of.number}, {of.when} step {of.step}, policy version {of.version}: {state},"
        f" {count(of.n_planned)} episodes planned, {of.samples} of each task"
    )


def _without(n_groups: int, before: str = "") -> str:
    """How many groups of the recording are no part of it; nothing where none is left out."""
    if n_groups == 0:
        return ""
    which = "1 group lacks" if n_groups == 1 else f"{count(n_groups)} groups lack"
    return f"{before}{which} an episode that never ended in the recording: left out"


def _lines(report: EvaluationReport) -> Iterator[tuple[str, Scores]]:
    yield "all", report.scores
    if len(report.environments) == 1:
        for each in report.categories:
            yield f"  {each.category or _NO_CATEGORY}", each.scores
        return
    for environment in report.environments:
        yield environment.name, environment.scores
        for each in environment.categories:
            yield f"  {each.category or _NO_CATEGORY}", each.scores


def _task_row(task: TaskScores, solved_at: float, *, is_one: bool) -> list[str]:
    n, n_solved = len(task.rewards), sum(reward >= solved_at for reward in task.rewards)
    return [
        task.task_id if is_one else f"{task.environment} {task.task_id}",
        task.category or "",
        count(n),
        count(task.n_failed),
        decimal(fmean(task.rewards)) if n else "-",
        f"{n_solved} of {n}" if n else "-",
    ]


def _difference_row(task: TaskDifference, *, is_one: bool) -> list[str]:
    told = {"solved": "solved now", "lost": "no longer", "same": ""}
    return [
        task.task_id if is_one else f"{task.environment} {task.task_id}",
        task.category or "",
        decimal(task.baseline_mean),
        decimal(task.other_mean),
        f"{task.other_mean - task.baseline_mean:+.3f}",
        f"{task.baseline_solved:.0%}",
        f"{task.other_solved:.0%}",
        told[task.change],
    ]


def _shown_ks(scores: Scores) -> list[int]:
    """Powers of two, and the last: a table of all is too wide."""
    ks = [each.k for each in scores.pass_at_k]
    return [k for k in ks if k & (k - 1) == 0 or k == ks[-1]]


def _row(name: str, scores: Scores, ks: Sequence[int]) -> list[str]:
    passes = {each.k: each for each in scores.pass_at_k}
    return [
        name,
        count(scores.n_tasks),
        count(scores.n_episodes),
        count(scores.n_failed),
        _with_error(scores.reward_mean, scores.reward_standard_error),
        *(
            _with_error(passes[k].value, passes[k].standard_error) if k in passes else "-"
            for k in ks
        ),
    ]


def _test_row(name: str, test: PairedTest) -> list[str]:
    interval = "-" if test.low is None else f"{decimal(test.low)} to {decimal(test.high)}"
    return [
        name,
        count(test.n_tasks),
        decimal(test.baseline_mean),
        decimal(test.other_mean),
        f"{test.difference:+.3f}",
        interval,
        f"{test.p_value:.2g}",
    ]


def _with_error(mean: float | None, error: float | None) -> str:
    return decimal(mean) if error is None else f"{decimal(mean)} ± {decimal(error)}"
