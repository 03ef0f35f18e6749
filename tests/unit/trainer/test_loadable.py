"""The base models that a GPU worker may load: by name, by path and by pattern."""

from pathlib import Path

import pytest

from warren_gpu_worker.base_models import UnknownBaseModel
from warren_gpu_worker.loadable import MOST_REFUSED, Loadable
from warren_gpu_worker.settings import GpuWorkerSettings


def loadable(*choices: str) -> Loadable:
    return Loadable(GpuWorkerSettings(base_models={"own": "/"}, may_load=choices))


def with_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_a_pattern_of_folders_stands_for_those_that_are_there(tmp_path: Path) -> None:
    with_model(tmp_path / "own")
    with_model(tmp_path / "other")
    (tmp_path / "no model").mkdir()
    found = loadable(f"{tmp_path}/o*", f"{tmp_path}/no*")
    assert found.names(but=["own"]) == ("other",)
    folder = str(tmp_path / "other")
    assert found.resolve("other", tmp_path, print, print) == {"other": folder}


def test_a_path_is_the_folder_that_it_led_to_at_the_start(tmp_path: Path) -> None:
    first, second = with_model(tmp_path / "v1"), with_model(tmp_path / "v2")
    current = tmp_path / "current"
    current.symlink_to(first)
    found = loadable(str(current))
    current.unlink()
    current.symlink_to(second)
    assert found.resolve("v1", tmp_path, print, print) == {"v1": str(first)}


def test_what_was_named_keeps_its_name_whatever_its_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_model(tmp_path / "some" / "model")
    monkeypatch.chdir(tmp_path)
    found = loadable("some/model").resolve("some/model", tmp_path, print, print)
    assert found == {"some/model": str(folder)}


def test_a_pattern_leaves_out_what_can_be_no_name_and_second_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a/epoch=3", "a/epoch=4", "a/two words", f"a/{'long' * 40}", "b/epoch=4"):
        with_model(tmp_path / name)
    found = loadable(f"{tmp_path}/*/*")
    assert found.names(but=["own"]) == ("epoch=3", "epoch=4")
    for name in ("epoch=3", "epoch=4"):
        assert found.resolve(name, tmp_path, print, print) == {name: str(tmp_path / "a" / name)}
    assert len(caplog.records) == 3


def test_a_pattern_of_names_stands_for_whatever_a_run_asks_for() -> None:
    found = loadable("warren/*")
    assert found.names(but=["own"]) == ("warren/*",)
    assert found.has("warren/tiny-lora") and not found.has("other")


@pytest.mark.parametrize("name", ["{}/other", "other={}/other", "../other", "~/other"])
def test_what_a_pattern_lets_a_run_name_is_no_folder_of_this_machine(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_model(tmp_path / "other")
    monkeypatch.chdir(with_model(tmp_path / "own"))
    with pytest.raises(UnknownBaseModel):
        loadable("*").resolve(name.format(tmp_path), tmp_path, print, print)


def test_no_number_of_refused_names_makes_heartbeats_long() -> None:
    found = loadable("*")
    for n in range(2 * MOST_REFUSED):
        found.refuse(f"made/up-{n}", "it can't be had")
    assert len(found.refused) == MOST_REFUSED and not found.has(f"made/up-{2 * MOST_REFUSED - 1}")
