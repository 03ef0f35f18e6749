"""The report: Markdown made from the ledger, as often as one likes."""

from collections.abc import Iterator, Sequence

from benchmarks.gpu.ledger import MAX_ATTEMPTS, Figures, Ledger, Record, Scalar
from benchmarks.gpu.notes import HIDDEN, NOTES
from benchmarks.gpu.plan import WAYS, Step

TITLES = {
    "machine": "The machine",
    "start": "vLLM starts",
    "exactness": "Exactness: the trainer's logprobs against vLLM's, and updates in flight",
    "sleep": "Sleep and wake",
    "images": "Images",
    "update": "Updates",
    "sampling": "Sampling",
    "grpo": "GRPO, end to end",
    "trl_grpo": "GRPO by TRL's GRPOTrainer, with the same shapes, batches and lengths",
}
"""Kinds of steps, in the order of the report."""


def report(steps: Sequence[Step], ledger: Ledger, heading: str) -> str:
    lines = [f"# {heading}", "", _summary(steps, ledger)]
    for kind, title in TITLES.items():
        own = [step for step in steps if step.kind == kind]
        if own:
            lines += ["", f"## {title}", "", NOTES[kind], "", *_section(own, ledger)]
    return "\n".join(lines) + "\n"


def _summary(steps: Sequence[Step], ledger: Ledger) -> str:
    records = [ledger.record(step.name) for step in steps]
    n_done = sum(record.outcome == "done" for record in records)
    n_open = sum(not record.is_over for record in records)
    n_others = len(steps) - n_done - n_open
    return (
        f"{n_done} of {len(steps)} steps done, {n_open} still to do, {n_others} ended otherwise. Models have random weights in the shapes of"
        " those they are named after. Figures have three digits that count; a cell is empty where there is nothing to tell."
    )


def _section(steps: Sequence[Step], ledger: Ledger) -> Iterator[str]:
    """A table for each set of columns that was found, and a line for each step that has not ended well."""
    rows = [
        (step, shown)
        for step in steps
        for figures in ledger.record(step.name).figures
        if (shown := {name: value for name, value in figures.items() if name not in HIDDEN})
    ]
    by_columns: dict[tuple[str, ...], list[tuple[Step, Figures]]] = {}
    for step, figures in rows:
        by_columns.setdefault(tuple(figures), []).append((step, figures))
    for place, alike in enumerate(by_columns.values()):
        yield from (*([""] if place else []), *_table(alike))
    others = [
        f"- `{step.name}`: {told}"
        for step in steps
        if (told := _told(ledger.record(step.name))) is not None
    ]
    if others:
        yield from (*([""] if rows else []), *others)


def _table(rows: Sequence[tuple[Step, Figures]]) -> Iterator[str]:
    columns = list(rows[0][1])
    names = [_name(step, figures) for step, figures in rows]
    head = ["model", *columns] if any(names) else columns
    yield _line(head)
    yield _line(["---"] * len(head))
    for name, (_, figures) in zip(names, rows, strict=True):
        cells = [cell(figures.get(column)) for column in columns]
        yield _line([name, *cells] if any(names) else cells)


def _name(step: Step, figures: Figures) -> str:
    """Of the model, without what the row says anyway."""
    words = [word for word in step.words if word not in WAYS or "way" not in figures]
    return " ".join(words)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def cell(value: Scalar) -> str:
    """Three digits that count; whole numbers by thousands."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def _told(record: Record) -> str | None:
    """None: it is done."""
    if record.outcome == "done":
        return None
    if record.outcome is not None:
        return f"{record.outcome} after {record.took_s:.0f} s: {record.reason}"
    if record.n_attempts >= MAX_ATTEMPTS:
        return f"cut off {record.n_attempts} times"
    return "cut off; it is tried once more" if record.n_attempts else "not begun"
