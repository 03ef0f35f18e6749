"""What people see of a followed run: at a terminal, in a log, as JSON."""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console
from tests.support.fake_gateway import COMPLETED, RUNNING, evaluation, step
from tests.unit.sdk.test_progress import VIEW, after

from warren.cli.commands.runs.checkpoints import print_checkpoints
from warren.display.live import LiveView, draw
from warren.display.notebook import as_html, in_notebook
from warren.display.output import PlainOutput
from warren.display.pretty import PrettyOutput
from warren.display.progress import started, with_queues
from warren.display.summary import print_summary
from warren.display.tables import print_queues, print_run, print_runs, print_workers
from warren.display.views import JsonView, PlainView, View
from warren.streams.events import Event
from warren_schemas.config import SftConfig
from warren_schemas.events import (
    Phase,
    RunEventBody,
    RunOutcome,
    RunState,
    StateChanged,
    StepCompleted,
    WaitingStarted,
    WarningRaised,
)
from warren_schemas.http import (
    CheckpointList,
    CheckpointView,
    PolicyView,
    QueuePlace,
    QueueView,
    RunResult,
    RunView,
)

METRICS = {
    "env/exact": 0.75,
    "stale/lag_mean": 1.2,
    "stale/lag_max": 3.0,
    "rollout/tokens_s": 11520.0,
}


def drawn(progress_bodies: Sequence[RunEventBody], **changes: object) -> str:
    console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True)
    console.print(draw(replace(after(progress_bodies), **changes), now_s=185.0))
    return console.export_text()


def fed(view: View, bodies: Sequence[RunEventBody], every_s: float = 1.0) -> None:
    progress = started(VIEW)
    with view:
        view.show(progress)
        for i, body in enumerate(bodies):
            event = Event(i, 101.0 + i * every_s, f"msg_{i}", body)
            progress = progress.after(event)
            view.show(progress, event)


def test_the_live_table_shows_what_matters() -> None:
    text = drawn([RUNNING, step(1, 4, **METRICS), step(2, 4, **METRICS)])
    for words in (
        "guess  run_1", "running · training", "1:25", "2/4", "2.0 s left", "reward", "0.500", "▁█",
        "exact", "0.750", "staleness", "1.2 (max 3)", "11,520", "episodes", "128", "updates",
    ):  # fmt: skip
        assert words in text


def test_the_live_table_shows_the_deepest_queues() -> None:
    queues = [QueueView(name=f"q{n}", n_ready=n) for n in range(6)]
    progress = with_queues(after([RUNNING]), queues)
    assert "q5 5 · q4 4 · q3 3" in drawn([RUNNING], queues=progress.queues)
    assert "nothing waits" in drawn([RUNNING], queues=(QueueView(name="q", n_ready=0),))


def test_the_live_table_says_why_nothing_moves() -> None:
    text = drawn([RUNNING, WaitingStarted(reason="no GPU worker offers it")], lost="No gateway")
    assert "waiting: no GPU worker offers it" in text
    assert "No gateway; trying again" in text


def test_marks_of_the_way_stay_above_the_live_table() -> None:
    console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True)
    bodies = [evaluation(0.31), WarningRaised(message="drifting"), step(1), COMPLETED]
    fed(LiveView(console), bodies)
    text = console.export_text()
    assert "✓ evaluation before: reward 0.310 over 512 episodes" in text
    assert "! warning: drifting" in text
    assert text.rstrip().splitlines()[-1].strip().startswith("updates")


def test_a_log_gets_lines_and_steps_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [step(i, 100, **METRICS) for i in range(1, 101)]
    fed(PlainView(PlainOutput()), [RUNNING, evaluation(0.31), *steps, COMPLETED], every_s=0.5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "running (training)"
    assert lines[-1] == "completed"
    assert lines[-2].startswith("step 100/100")
    assert "\x1b" not in "".join(lines)
    assert 10 <= sum(line.startswith("step") for line in lines) <= 15


def test_a_log_says_when_the_gateway_is_lost_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    view, progress = PlainView(PlainOutput()), started(VIEW)
    for lost in (None, "No gateway answers", "No gateway answers", None):
        view.show(replace(progress, lost=lost))
    assert capsys.readouterr().out == "No gateway answers; trying again\ngateway is back\n"


def test_json_lines_hold_whole_events(capsys: pytest.CaptureFixture[str]) -> None:
    fed(JsonView(), [RUNNING, step(1, 3, **METRICS), COMPLETED])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["state_changed", "step_completed", "state_changed"]
    assert lines[1]["metrics"]["env/exact"] == 0.75
    assert lines[1]["offset"] == 1


def ended(state: RunState, **changes: object) -> RunView:
    return VIEW.model_copy(update={"state": state, **changes})


def test_the_summary_of_a_run_that_completed(capsys: pytest.CaptureFixture[str]) -> None:
    result = RunResult(reward_before=0.3, reward_after=0.97, episodes=51200)
    print_summary(ended(RunState.COMPLETED, result=result), PlainOutput(), as_json=False)
    out = capsys.readouterr().out
    assert "reward after    0.970" in out
    assert "51,200" in out
    assert "warren tensorboard run_1" in out


@pytest.mark.parametrize(
    ("outcome", "told", "state"),
    [
        (RunOutcome.NOTHING_LEARNED, "ended without learning anything", "nothing learned"),
        (RunOutcome.NOTHING_TO_DO, "completed at once", "nothing to do"),
        (RunOutcome.TRAINED, "Run run_1 completed", "completed"),
    ],
)
def test_a_run_that_learned_nothing_is_not_told_as_a_success(
    capsys: pytest.CaptureFixture[str], outcome: RunOutcome, told: str, state: str
) -> None:
    result = RunResult(outcome=outcome, remark="the reason")
    view = ended(RunState.COMPLETED, result=result)
    print_summary(view, PlainOutput(), as_json=False)
    print_runs([view], PlainOutput())
    print_run(view, PlainOutput())
    fed(
        PlainView(PlainOutput()),
        [StateChanged(state=RunState.COMPLETED, outcome=outcome, reason="why")],
    )
    out = capsys.readouterr().out
    assert told in out
    assert "  the reason" in out
    assert f"  {state}  " in out
    assert re.search(rf"state +{state}", out)
    assert out.splitlines()[-1] == state
    text = drawn([StateChanged(state=RunState.COMPLETED, outcome=outcome, reason="why")])
    assert state in text


def test_steps_of_the_warm_up_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    config = VIEW.config and VIEW.config.model_copy(update={"sft": SftConfig(steps=40)})
    changes = {"phase": Phase.SFT, "sft_step": 12, "config": config}
    print_runs([ended(RunState.RUNNING, **changes)], PlainOutput())
    assert "SFT 12/40" in capsys.readouterr().out
    body = StepCompleted(phase=Phase.SFT, step=9, n_steps=9, version=9, n_episodes=9, metrics={})
    assert "SFT step" in drawn([body])


def test_each_reason_for_which_listed_runs_wait_is_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = "every trainer of tiny is drained"
    place = QueuePlace(number=1, n_ahead_own=0, n_ahead_others=0, reason=reason)
    queued = [
        ended(RunState.QUEUED, id=f"run_{n}", queue=place, waiting_for=reason) for n in (1, 2)
    ]
    starting = ended(RunState.STARTING, name="other", waiting_for="no env worker offers chess")
    print_runs([*queued, starting], PlainOutput())
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"2 runs wait: {reason}",
        "other waits: no env worker offers chess",
    ]
    print_run(queued[0], PlainOutput())
    assert capsys.readouterr().out.count(reason) == 1
    print_run(starting, PlainOutput())
    assert "starting (loading warren/tiny)" in capsys.readouterr().out


def test_the_summary_of_a_run_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    view = ended(RunState.FAILED, error="16 groups failed in a row")
    print_summary(view, PlainOutput(), as_json=False)
    assert "failed: 16 groups failed in a row" in capsys.readouterr().out


def test_tables_without_rows_say_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    output = PlainOutput()
    print_runs([], output)
    print_workers([], output)
    print_queues([], output)
    out = capsys.readouterr().out
    assert "warren train" in out
    assert "warren up" in out
    assert "appear" in out


def test_tables_at_a_terminal() -> None:
    console = Console(width=120, record=True, file=io.StringIO(), force_terminal=True)
    print_runs([ended(RunState.RUNNING, step=2, reward=0.5)], PrettyOutput(console))
    text = console.export_text()
    assert "run_1" in text
    assert "2/4" in text
    assert "0.500" in text


def test_an_id_and_numbers_stay_whole_at_a_narrow_terminal() -> None:
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
    id_ = "run_01a20bbe5c944acc0b903fd9b3b8"
    row = [id_, "a name that is long", "queued (number 12)", "1000/30000", "an hour ago"]
    PrettyOutput(console).table(["run", "name", "state", "step", "started"], [row], right=["step"])
    text = console.export_text()
    assert id_ in text
    assert "1000/30000" in text


def test_why_a_run_ended_is_left_to_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    fed(PlainView(PlainOutput()), [StateChanged(state=RunState.FAILED, reason="no groups")])
    assert capsys.readouterr().out == "failed\n"


def test_a_notebook_shows_a_bar_and_the_numbers() -> None:
    progress = after([RUNNING, step(2)])
    shown = as_html(replace(progress, name="<b>", lost="No gateway answers"))
    assert '<progress value="2" max="3">' in shown
    assert "step 2/3" in shown and "reward" in shown
    assert "<b>&lt;b&gt;</b>" in shown  # a name is text, also where it looks like markup
    assert "No gateway answers; trying again" in shown
    assert not in_notebook()


def test_checkpoints_are_listed_with_the_steps_whose_policies_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = CheckpointView(
        name="step-000020", version=60, step=20, size_bytes=9, url="file:///s", created_s=1.0
    )
    policies = tuple(PolicyView(step=n, version=40 + n, url="file:///p") for n in (18, 20))
    print_checkpoints(
        CheckpointList(checkpoints=(saved,), step=23, policies=policies), PlainOutput()
    )
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:3] == ["step-000020", "20", "60"]
    assert "after steps 18 to 23 are kept as well: warren export RUN@STEP --to FOLDER" in out
