"""The files of a run: complete and without doubles, wherever a crash struck."""

# tensorboard has neither types nor stubs
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tests.support.gateway import CONFIG, ended, event, step

from warren_gateway.metrics.journal import JOURNAL, Entry, Journal, is_complete
from warren_gateway.metrics.recorder import Recorder
from warren_schemas.config import TrainConfig
from warren_schemas.events import EvaluationCompleted, Phase, RunEvent, RunState, WarningRaised
from warren_schemas.ids import RunId
from warren_schemas.tensorboard.about import About
from warren_schemas.tensorboard.summaries import END_TAG

ABOUT = About(
    run=RunId("run_0123456789ab0123456789abcdef"),
    name="a/b of c",
    created_s=1.0,
    config=TrainConfig.model_validate(CONFIG),
)
HEADER = {
    "config": "text",
    "custom_scalars__config__": "custom_scalars",
    "_hparams_/experiment": "hparams",
    "_hparams_/session_start_info": "hparams",
}
"""What stands beside the curves, and for which plugin."""

Curves = dict[str, list[tuple[int, float]]]


def read_back(folder: Path) -> Curves:
    """Every curve, by TensorBoard's own reader, by steps: it reads files of one second in any order."""
    accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    accumulator.Reload()
    tags = cast("list[str]", accumulator.Tags()["scalars"])
    return {
        tag: sorted((p.step, round(p.value, 4)) for p in accumulator.Scalars(tag)) for tag in tags
    }


def test_steps_evaluations_and_sft_are_curves_of_their_own(tmp_path: Path) -> None:
    sft = step(1, policy_loss=2.0).model_copy(update={"phase": Phase.SFT})
    evaluation = EvaluationCompleted(
        when="before", step=0, version=1, n_episodes=8, reward_mean=0.25, metrics={"env/exact": 0.1}
    )
    bodies = [sft, evaluation, step(1, policy_loss=0.5), WarningRaised(message="x"), ended()]
    with recorder(tmp_path) as record:
        for offset, body in enumerate(bodies):
            record.record(offset, [event("run_1", body)])
        assert record.is_complete
    assert read_back(tmp_path / ABOUT.folder) == {
        "9_sft/policy/loss": [(1, 2.0)],
        "2_evaluation/reward_mean": [(0, 0.25)],
        "2_evaluation/env/exact": [(0, 0.1)],
        "5_policy/loss": [(1, 0.5)],
    }
    assert is_complete(tmp_path / ABOUT.folder / JOURNAL)


def test_the_time_of_a_point_is_the_time_of_its_event(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        record.record(0, [event("run_1", step(1, reward_mean=0.5), at_s=1234.5)])
    accumulator = EventAccumulator(str(tmp_path / ABOUT.folder))
    accumulator.Reload()
    assert accumulator.Scalars("1_reward/mean")[0].wall_time == 1234.5


def test_a_message_that_comes_again_and_a_twin_change_nothing(tmp_path: Path) -> None:
    first = event("run_1", step(1, reward_mean=0.5))
    with recorder(tmp_path) as record:
        record.record(0, [first])
        record.record(0, [first])
        record.record(1, [first])
    with recorder(tmp_path) as record:
        record.record(2, [first])
    assert read_back(tmp_path / ABOUT.folder) == {"1_reward/mean": [(1, 0.5)]}


def test_a_restart_goes_on_from_the_last_message(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        record.record(3, [event("run_1", step(1, reward_mean=0.5))])
        record.record(7, [event("run_1", step(2, reward_mean=0.6))])
    restarted = Recorder(tmp_path, ABOUT)
    assert restarted.open() == 7
    restarted.close()


MESSAGES = [
    [event("run_1", step(2 * n, reward_mean=float(n), stale_lag_mean=1.0), at_s=n + 0.1),
     event("run_1", step(2 * n + 1, reward_mean=float(n)), at_s=n + 0.1)]
    for n in range(6)
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(crashes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 120), st.integers(0, 120))))
def test_no_crash_loses_or_doubles_a_point(
    tmp_path_factory: pytest.TempPathFactory, crashes: list[tuple[int, int, int]]
) -> None:
    """Each crash: some messages later, some bytes torn off the journal and every event file."""
    runs_dir = tmp_path_factory.mktemp("runs")
    folder = runs_dir / ABOUT.folder
    for n_messages, n_journal, n_events in crashes:
        _resume(runs_dir, MESSAGES[:n_messages])
        _tear(folder / JOURNAL, n_journal)
        for path in folder.glob("events.*"):
            _tear(path, n_events)
    _resume(runs_dir, MESSAGES)
    curves = {tag: sorted(points) for tag, points in read_back(folder).items()}
    assert curves == {
        "1_reward/mean": [(number, float(number // 2)) for number in range(12)],
        "6_stale/lag_mean": [(number, 1.0) for number in range(0, 12, 2)],
    }


def test_event_files_that_were_deleted_are_written_anew(tmp_path: Path) -> None:
    _resume(tmp_path, MESSAGES)
    for path in (tmp_path / ABOUT.folder).glob("events.*"):
        path.unlink()
    _resume(tmp_path, MESSAGES)
    assert len(read_back(tmp_path / ABOUT.folder)["1_reward/mean"]) == 12


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    journal = Journal(path)
    journal.load()
    entry = Entry(offset=1, place=0, id="m", at_s=1.0, kind="k", step=1, metrics={"a/b": 1.0})
    journal.append([entry])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert Journal(path).load() == [entry]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b'{"offset":1'])
def test_a_journal_without_its_end_is_not_complete(tmp_path: Path, content: bytes) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    assert not is_complete(tmp_path / JOURNAL)


def test_a_folder_says_whose_it_is_and_holds_config_and_hyperparameters(tmp_path: Path) -> None:
    _resume(tmp_path, MESSAGES)
    folder = tmp_path / "a-b-of-c-89abcdef"
    assert About.model_validate_json((folder / "run.json").read_bytes()) == ABOUT
    accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    accumulator.Reload()
    metadata = {tag: accumulator.SummaryMetadata(tag).plugin_data for tag in HEADER}
    assert {tag: data.plugin_name for tag, data in metadata.items()} == HEADER
    config = accumulator.Tensors("config")[0].tensor_proto.string_val[0].decode()
    assert "learning_rate: 0.0001" in config
    session = plugin_data_pb2.HParamsPluginData.FromString(
        metadata["_hparams_/session_start_info"].content
    ).session_start_info
    assert session.hparams["optimizer.learning_rate"].number_value == 1e-4
    assert session.hparams["environments"].string_value == "guess"
    layout = layout_pb2.Layout.FromString(
        accumulator.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0]
    )
    assert layout.category[0].title == "Reward"


def test_the_end_of_a_run_is_told_once(tmp_path: Path) -> None:
    for _ in range(2):
        with recorder(tmp_path) as record:
            record.record(0, [event("run_1", ended(RunState.FAILED))])
    accumulator = EventAccumulator(str(tmp_path / ABOUT.folder), size_guidance={"tensors": 0})
    accumulator.Reload()
    assert len(accumulator.Tensors(END_TAG)) == 1
    content = accumulator.SummaryMetadata(END_TAG).plugin_data.content
    told = plugin_data_pb2.HParamsPluginData.FromString(content).session_end_info
    assert told.status == api_pb2.STATUS_FAILURE


@contextmanager
def recorder(folder: Path) -> Generator[Recorder]:
    """An opened recorder, closed on leaving."""
    record = Recorder(folder, ABOUT)
    record.open()
    yield record
    record.close()


def _resume(folder: Path, messages: list[list[RunEvent]]) -> None:
    """What the consumer does after a start: read from where the journal says."""
    record = Recorder(folder, ABOUT)
    start = record.open()
    first = 0 if start == "first" else start
    for offset, events in enumerate(messages[first:], start=first):
        record.record(offset, events)
    record.close()


def _tear(path: Path, n_bytes: int) -> None:
    if path.exists():
        size = path.stat().st_size
        with path.open("ab") as file:
            file.truncate(max(0, size - n_bytes))
