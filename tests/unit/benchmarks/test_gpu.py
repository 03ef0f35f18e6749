"""`make gpu` loses nothing: its ledger, its plan, its report and what travels."""

import tarfile
import zipfile
from pathlib import Path

import pytest
from benchmarks.gpu.ledger import MAX_ATTEMPTS, Ledger
from benchmarks.gpu.notes import NOTES
from benchmarks.gpu.packing import unpack
from benchmarks.gpu.plan import CALL_S, N_CALLS, SHAPES, Step, plan
from benchmarks.gpu.table import cell, report

STEP = Step("update tiny full", 1.0, 2.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "results" / "ledger.jsonl"


class TestLedger:
    def test_what_was_written_is_read_again(self, file: Path) -> None:
        ledger = Ledger(file)
        ledger.begin("a")
        ledger.add("a", {"tokens/s": 12.5})
        ledger.end("a", "failed", 3.21, "no memory")
        again = Ledger(file).record("a")
        assert again == ledger.record("a")
        assert (again.outcome, again.reason, again.took_s) == ("failed", "no memory", 3.2)
        assert again.figures == [{"tokens/s": 12.5}]

    def test_a_torn_line_costs_itself_alone(self, file: Path) -> None:
        ledger = Ledger(file)
        ledger.begin("a")
        ledger.add("a", {"n": 1})
        with file.open("a") as end:
            end.write('{"step": "a", "event": "fig')
        again = Ledger(file)
        again.add("a", {"n": 2})
        assert Ledger(file).record("a").figures == [{"n": 1}, {"n": 2}]

    def test_a_step_cut_off_is_begun_again_and_not_for_ever(self, file: Path) -> None:
        for _ in range(MAX_ATTEMPTS):
            assert not Ledger(file).record("a").is_over
            Ledger(file).begin("a")
        assert Ledger(file).record("a").is_over

    def test_a_new_attempt_has_figures_of_its_own(self, file: Path) -> None:
        ledger = Ledger(file)
        for n in range(2):
            ledger.begin("a")
            ledger.add("a", {"n": n})
        assert ledger.record("a").figures == [{"n": 1}]
        assert ledger.found("n") == 1
        assert ledger.found("m") is None


class TestPlan:
    def test_names_are_unique_and_limits_hold_what_is_expected(self) -> None:
        steps = plan()
        assert len({step.name for step in steps}) == len(steps)
        assert all(step.expected_s <= step.limit_s < CALL_S for step in steps)

    def test_what_is_needed_fits_into_the_calls(self) -> None:
        assert sum(step.expected_s for step in plan() if step.needed) <= N_CALLS * CALL_S

    def test_every_shape_is_measured(self) -> None:
        names = [step.name for step in plan()]
        assert all(f"update {shape} lora" in names for shape in SHAPES)
        assert "update qwen3-8b full" not in names


class TestReport:
    def test_tells_what_was_found_and_what_was_not(self, file: Path) -> None:
        ledger = Ledger(file)
        ledger.begin(STEP.name)
        ledger.add(STEP.name, {"tokens/s": 12_345.6, "MFU": None, "same": True})
        ledger.end(STEP.name, "timed out", 2.0, "longer than 2 s")
        text = report([STEP, Step("images", 1.0, 2.0)], ledger, "Warren")
        assert "| tiny full | 12,346 |  | yes |" in text
        assert "- `update tiny full`: timed out after 2 s: longer than 2 s" in text
        assert "- `images`: not begun" in text
        assert "0 of 2 steps done, 1 still to do, 1 ended otherwise." in text

    def test_figures_of_the_same_kind_share_a_table(self, file: Path) -> None:
        ledger = Ledger(file)
        for figures in ({"a": 1}, {"b": 2}, {"a": 3}):
            ledger.add(STEP.name, figures)
        text = report([STEP], ledger, "Warren")
        assert "| model | a |\n| --- | --- |\n| tiny full | 1 |\n| tiny full | 3 |" in text

    def test_every_kind_of_step_says_what_was_measured(self, file: Path) -> None:
        steps = plan(("tiny",))
        text = report(steps, Ledger(file), "Warren")
        assert {step.kind for step in steps} == NOTES.keys()
        assert all(note in text for note in NOTES.values())

    def test_a_way_is_told_once_and_what_is_for_later_steps_not_at_all(self, file: Path) -> None:
        ledger, step = Ledger(file), Step("sampling tiny full own", 1.0, 2.0)
        ledger.add(step.name, {"way": "own", "live": 4})
        ledger.add(step.name, {"attention": ""})
        text = report([step], ledger, "Warren")
        assert "| tiny full | own | 4 |" in text
        assert "attention" not in text

    @pytest.mark.parametrize(
        ("value", "shown"),
        [(0.012345, "0.0123"), (1234.5, "1,234"), (1024, "1,024"), (None, ""), ("a", "a")],
    )
    def test_figures_have_three_digits_that_count(
        self, value: float | str | None, shown: str
    ) -> None:
        assert cell(value) == shown


def test_what_was_packed_is_unpacked_once(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    folder.mkdir()
    (tmp_path / "a.py").write_text("")
    with tarfile.open(folder / "all.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "a.py", "a.py")
    with zipfile.ZipFile(folder / "b-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("b/__init__.py", "")
    site = Path(unpack(folder, tmp_path / "site"))
    assert (site / "a.py").exists() and (site / "b" / "__init__.py").exists()
    (site / "a.py").unlink()
    unpack(folder, site)
    assert not (site / "a.py").exists()
