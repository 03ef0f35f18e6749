"""Base models that users uploaded, on a worker's disk: checked, bounded, and kept while they are used."""

import hashlib
import os
from pathlib import Path

import pytest
from tests.support.uploaded_models import write_base_model

from warren_gpu_worker.base_models import UnknownBaseModel, resolve_base_models
from warren_gpu_worker.base_models.uploaded import CantFetch, NoRoom, UploadedModels
from warren_gpu_worker.loadable import Loadable
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.base_models.names import folder_name, new_name, seal_of

ROOM = 10**6


def stored(store: Path, value: float = 0.5) -> str:
    """As a gateway puts it there; its name."""
    store.mkdir(exist_ok=True)
    made = write_base_model(store / "made", value=value)
    files = {one.name: one.read_bytes() for one in made.iterdir()}
    seal = seal_of({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})
    (made / "SHA256SUMS").write_bytes(seal)
    name = new_name(hashlib.sha256(seal).hexdigest())
    made.rename(store / folder_name(name))
    return name


def size_bytes(store: Path, name: str) -> int:
    return sum(one.stat().st_size for one in (store / folder_name(name)).iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def models(tmp_path: Path, store: Path) -> UploadedModels:
    return UploadedModels(store.as_uri(), tmp_path / "cache", ROOM)


def test_it_is_fetched_once(models: UploadedModels, store: Path, tmp_path: Path) -> None:
    name = stored(store)
    folder = Path(models.fetch(name))
    assert folder == tmp_path / "cache" / folder_name(name)
    for one in folder.iterdir():
        assert one.read_bytes() == (store / folder.name / one.name).read_bytes()
    (store / folder.name).rename(store / "gone")
    assert models.fetch(name) == str(folder)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "SHA256SUMS"])
def test_what_is_not_what_its_name_says_is_refused(
    models: UploadedModels, store: Path, tmp_path: Path, file: str
) -> None:
    name = stored(store)
    changed = store / folder_name(name) / file
    changed.write_bytes(changed.read_bytes() + b"\n")
    with pytest.raises(CantFetch):
        models.fetch(name)
    assert [one for one in (tmp_path / "cache").iterdir() if one.is_dir()] == []


def test_files_that_no_base_model_has_are_not_fetched(
    models: UploadedModels, store: Path, tmp_path: Path
) -> None:
    for number, file in enumerate(("evil.py", "../x", "/etc/passwd")):
        seal = seal_of({"config.json": "a" * 64, "tokenizer.json": "b" * 64, file: "c" * 64})
        name = new_name(hashlib.sha256(seal).hexdigest())
        folder = store / folder_name(name)
        folder.mkdir(parents=True)
        (folder / "SHA256SUMS").write_bytes(seal)
        with pytest.raises(CantFetch):
            models.fetch(name)
        assert number >= 0 and not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["warren/tiny", "warren/uploaded-..", "warren/uploaded-x/../y"])
def test_only_such_names_are_fetched(models: UploadedModels, name: str) -> None:
    with pytest.raises(CantFetch, match="no name of an uploaded"):
        models.fetch(name)


def test_the_least_recently_used_one_makes_place(store: Path, tmp_path: Path) -> None:
    names = [stored(store, value) for value in (0.1, 0.2, 0.3)]
    room = 2 * size_bytes(store, names[0]) + 100
    models = UploadedModels(store.as_uri(), tmp_path / "cache", room)
    first, second = (Path(models.fetch(name)) for name in names[:2])
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    assert Path(models.fetch(names[0])) == first, "used again, it is the newest"
    third = Path(models.fetch(names[2]))
    assert (first.is_dir(), second.is_dir(), third.is_dir()) == (True, False, True)


def test_what_another_worker_uses_stays(store: Path, tmp_path: Path) -> None:
    mine, other = stored(store, 0.1), stored(store, 0.2)
    room = size_bytes(store, mine) + 100
    one, two = (UploadedModels(store.as_uri(), tmp_path / "cache", room) for _ in range(2))
    folder = Path(one.fetch(mine))
    with pytest.raises(NoRoom, match="GiB are free"):
        two.fetch(other)
    assert folder.is_dir()
    one.release()
    assert Path(two.fetch(other)).is_dir() and not folder.is_dir()
    with pytest.raises(NoRoom, match="the worker keeps"):
        UploadedModels(store.as_uri(), tmp_path / "small", 10).fetch(mine)


def test_a_worker_that_may_has_it_by_its_name(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_HOME", str(tmp_path / "home"))
    name = stored(store)

    def loadable(*may_load: str) -> Loadable:
        return Loadable(
            GpuWorkerSettings(
                base_models={"own": "/"}, may_load=may_load, models_url=store.as_uri()
            )
        )

    assert not loadable("other").has(name)
    able = loadable("warren/uploaded-*")
    assert able.has(name)
    told: list[str] = []
    found = able.resolve(name, tmp_path, told.append, lambda _: None)
    assert found == {name: str(tmp_path / "home" / "cache" / "base-models" / folder_name(name))}
    assert told == [f"fetching {name} from the gateway's store"]


def test_it_is_never_looked_for_on_the_hub(tmp_path: Path) -> None:
    with pytest.raises(UnknownBaseModel, match="was uploaded to a gateway by a user"):
        resolve_base_models([new_name("a" * 64)], tmp_path)
