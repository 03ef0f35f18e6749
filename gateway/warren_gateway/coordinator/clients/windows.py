"""What a client's model did from one optimizer step to the next, as metrics of that step.

Invariant: an op counts once, and so a step is reported once, however often trainers that followed each other had to
apply it. What is told here changes no decision.
"""

from warren_gateway.coordinator.learning.batch_metrics import tagged_as_people_see
from warren_gateway.coordinator.state.client import Taken, Window
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.events import Phase, StepCompleted
from warren_schemas.training import OpDone, OpFailed, OpResult

LOSS, TOKENS = "policy/loss", "policy/tokens"


def note_answer(state: CoordinatorState, answer: OpResult, taken: Taken | None) -> None:
    """An op of the log is answered, in its order; `taken` is what the client asked, if it did."""
    if answer.number <= state.client.noted_op:
        return
    state.client.noted_op = answer.number
    kind = None if taken is None else taken.kind
    if isinstance(answer.outcome, OpFailed):
        if kind == "optim_step" or (taken is not None and taken.asked.begins_window):
            state.client.window = Window()
    elif kind == "load_state":  # the gradient is the checkpoint's now
        state.client.window = Window()
    elif kind == "forward_backward":
        _add(state.client.window, answer.outcome)
        state.client.window.n_sequences += 0 if taken is None else len(taken.asked.lengths)
    elif kind == "optim_step":
        _report(state, answer.outcome)


def _add(window: Window, outcome: OpDone) -> None:
    window.told.add(outcome.metrics)
    window.training_s += outcome.duration_s


def _report(state: CoordinatorState, outcome: OpDone) -> None:
    """Nobody waits for it: it goes to those who follow the run with what is sent next."""
    client = state.client
    _add(client.window, outcome)
    step = StepCompleted(
        phase=Phase.TRAINING,
        step=outcome.version,
        n_steps=0,
        version=outcome.version,
        n_episodes=0,
        metrics=_metrics(client.window) | _time(state),
    )
    state.emit(step, is_awaited=False)
    client.window, client.stepped_s = Window(), state.now_s


def _metrics(window: Window) -> dict[str, float]:
    metrics = tagged_as_people_see(window.told)
    if LOSS in metrics and (n_tokens := metrics.get(TOKENS)):
        metrics["policy/loss_per_token"] = metrics[LOSS] / n_tokens
    return metrics | {
        "policy/sequences": float(window.n_sequences),
        "time/training_s": window.training_s,
    }


def _time(state: CoordinatorState) -> dict[str, float]:
    """Nothing where the step before is not known."""
    since_s = state.client.stepped_s
    return {"time/step_s": state.now_s - since_s} if since_s else {}
