"""The ops of a session as a timeline, in the JSON that trace viewers (Perfetto's, Chrome's) read."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """An op from when it was asked for until it had an outcome; None: it has none."""

    model: str
    kind: str
    future: str
    arrived_s: float
    done_s: float | None


def timeline(spans: Sequence[Span]) -> bytes:
    """A process for each model, and in it a row for each kind of op."""
    models = {model: i for i, model in enumerate(dict.fromkeys(span.model for span in spans))}
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(span.kind for span in spans))}
    names = [
        {"ph": "M", "name": "process_name", "pid": i, "args": {"name": model}}
        for model, i in models.items()
    ]
    rows = [
        {"ph": "M", "name": "thread_name", "pid": p, "tid": t, "args": {"name": kind}}
        for p in models.values()
        for kind, t in kinds.items()
    ]
    events = [_event(span, models[span.model], kinds[span.kind]) for span in spans]
    return orjson.dumps({"traceEvents": [*names, *rows, *events]})


def _event(span: Span, process: int, thread: int) -> dict[str, object]:
    lasted_s = 0.0 if span.done_s is None else span.done_s - span.arrived_s
    return {
        "ph": "X",
        "name": span.kind if span.done_s is not None else f"{span.kind} (no outcome yet)",
        "pid": process,
        "tid": thread,
        "ts": span.arrived_s * _US,
        "dur": lasted_s * _US,
        "args": {"future": span.future},
    }
