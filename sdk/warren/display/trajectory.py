"""One trajectory as lines for a person: what was said, turn by turn, with rewards and versions."""

from collections.abc import Iterator, Sequence

import numpy as np

from warren.display.words import decimal
from warren_schemas.episode import Completed
from warren_schemas.http import TrajectoryView
from warren_schemas.transcript import Branch, Tokens, Transcript

Line = tuple[str, str]
"""Text and rich style."""

ROLE_STYLES = {"system": "dim", "user": "cyan", "assistant": "bold", "tool": "magenta"}


def look(view: TrajectoryView) -> Iterator[Line]:
    """All lines of one trajectory."""
    item = view.trajectory
    yield _title(view), "bold underline"
    yield _outcome(view), "green" if isinstance(item.outcome, Completed) else "red"
    for branch in item.transcript.branches:
        if item.transcript.set_aside:
            yield f"branch {branch.number + 1}", "underline"
        yield from _branch(item.transcript, branch)
    yield "", ""


def _branch(transcript: Transcript, branch: Branch) -> Iterator[Line]:
    """One conversation."""
    numbers = transcript.turns_of(branch.number)
    turns = list(zip(numbers, branch.tokens.sampled_spans, strict=False))
    n_actions = 0
    for message in branch.messages:
        style = ROLE_STYLES[message.role]
        yield f"{message.role}:", f"{style} dim"
        yield from ((f"  {line}", style) for line in message.content.splitlines() or [""])
        if message.n_tokens:
            yield f"  [{message.n_tokens} tokens]", f"{style} dim"
        yield from ((f"  [{image.media_type}]", f"{style} dim") for image in message.images)
        if message.is_action:
            if n_actions < len(turns) and turns[n_actions][0] < len(transcript.turns):
                number, span = turns[n_actions]
                reward = transcript.turns[number].reward
                told = "no reward" if reward is None else f"reward {decimal(reward)}"
                sampled = _sampled([branch.tokens], span)
                yield f"  [turn {number + 1}: {told}, {sampled}]", "yellow"
            n_actions += 1


def _title(view: TrajectoryView) -> str:
    item, spec = view.trajectory, view.trajectory.spec
    task = f"{spec.environment} {item.task_id}"
    attempt = f", attempt {item.envelope.attempt}" if item.envelope.attempt > 1 else ""
    return f"{view.offset}: {task}, {spec.purpose}, {spec.group} member {spec.member}{attempt}"


def _outcome(view: TrajectoryView) -> str:
    outcome = view.trajectory.outcome
    if not isinstance(outcome, Completed):
        return f"failed ({outcome.kind}): {outcome.reason}"
    parts = [f"reward {decimal(outcome.reward)}"]
    if view.advantage is not None:
        parts.append(f"advantage {view.advantage:+.3f}")
    parts.append(_sampled(view.trajectory.transcript.sequences, slice(None)))
    parts.append("truncated" if outcome.truncated else "")
    parts.append(view.fate or "not consumed yet")
    return ", ".join(part for part in parts if part)


def _sampled(sequences: Sequence[Tokens], span: slice) -> str:
    versions_T = np.concatenate([t.versions_T[span][t.mask_T[span] == 1] for t in sequences])
    if not versions_T.size:
        return "0 tokens"
    low, high = int(versions_T.min()), int(versions_T.max())
    which = f"version {low}" if low == high else f"versions {low} to {high}"
    return f"{versions_T.size} tokens by {which}"
