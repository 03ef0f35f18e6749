"""`warren config`: of files, of runs, and against what a gateway knows."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest
from tests.support.gateway import CONFIG, Gateway
from tests.unit.gateway.api.test_checking import all_online

from warren.cli import codes
from warren.cli.commands.runs.config import check, diff, show
from warren.cli.options import Gateway as GatewayOption
from warren.errors import ConfigurationError, GatewayUnreachable, NotFound

GOOD, NAMES, KEYS = "good.yaml", "names.yaml", "keys.yaml"


def options(gateway: Gateway) -> GatewayOption:
    return GatewayOption(gateway.url, gateway.ann.headers["Authorization"][7:])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """JSON is YAML."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / GOOD).write_text(json.dumps(CONFIG | {"seed": 5}))
    (tmp_path / NAMES).write_text(
        json.dumps(CONFIG | {"environments": [{"name": "gues", "dataset": "none"}]})
    )
    (tmp_path / KEYS).write_text(json.dumps(CONFIG | {"sede": 5, "limits": {"steps": -1}}))
    return tmp_path


async def test_all_mistakes_of_all_files_are_told(
    gateway: Gateway, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    all_online(gateway)
    checking = partial(check, *map(Path, (GOOD, NAMES, KEYS)), gateway=options(gateway))
    assert await asyncio.to_thread(checking) == codes.USAGE
    told = capsys.readouterr()
    assert f"{GOOD}: no mistakes found" in told.out
    lines = told.err.splitlines()
    for place in ("environments.0.name", "environments.0.dataset"):
        assert any(line.startswith(f"{NAMES}: {place}: ") for line in lines), told.err
    for place in ("sede", "limits.steps"):
        assert any(line.startswith(f"{KEYS}: {place}: ") for line in lines), told.err
    assert len(lines) == 4


def test_without_a_gateway_the_rest_is_checked(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(Path(NAMES), offline=True) == codes.OK
    nobody = GatewayOption("http://127.0.0.1:9", "wk_1_x")
    assert check(Path(NAMES), gateway=nobody) == codes.OK
    assert "not checked: models, environments and data sets" in capsys.readouterr().out
    assert check(Path("no-such.yaml"), offline=True, json=True) == codes.USAGE
    assert json.loads(capsys.readouterr().out)["mistakes"] == ["There is no file no-such.yaml"]
    with pytest.raises(ConfigurationError):
        check()


async def test_a_run_may_be_called_like_a_file(
    gateway: Gateway, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("exp/1", "other.yaml"):
        await gateway.submit(config=CONFIG | {"name": name})
        await asyncio.to_thread(partial(show, name, json=True, gateway=options(gateway)))
        assert {"key": "name", "value": name, "source": "run"} in json.loads(
            capsys.readouterr().out
        )
    with pytest.raises(NotFound, match=r"no file and no run lost\.yaml"):
        await asyncio.to_thread(partial(show, "lost.yaml", gateway=options(gateway)))
    nobody = GatewayOption("http://127.0.0.1:9", "wk_1_x")
    with pytest.raises(GatewayUnreachable, match=r"no file lost\.yaml, and the gateway can't be"):
        await asyncio.to_thread(partial(show, "lost.yaml", gateway=nobody))
    with pytest.raises(ConfigurationError, match=r"no file lost\.yaml, and --set is for files"):
        await asyncio.to_thread(partial(show, "lost.yaml", set_=("seed=1",)))


async def test_configs_of_runs_are_shown_and_compared(
    gateway: Gateway, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    await asyncio.to_thread(partial(show, run, json=True, gateway=options(gateway)))
    shown = {key["key"]: key for key in json.loads(capsys.readouterr().out)}
    assert shown["model.base"]["source"] == "run"
    assert shown["sampling.temperature"]["source"] == "default"
    await asyncio.to_thread(partial(diff, GOOD, run, json=True, gateway=options(gateway)))
    assert json.loads(capsys.readouterr().out) == [{"key": "seed", "a": 5, "b": 0}]
    with pytest.raises(NotFound, match="no file and no run nowhere"):
        await asyncio.to_thread(partial(show, "nowhere", gateway=options(gateway)))


def test_where_each_value_of_a_file_comes_from(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(GOOD, set_=("limits.steps=3", "algorithm.loss=cispo"), json=True) == codes.OK
    sources = {key["key"]: key["source"] for key in json.loads(capsys.readouterr().out)}
    assert sources["seed"] == GOOD
    assert sources["limits.steps"] == sources["algorithm.loss.kind"] == "--set"
    assert sources["limits.stop_on"] == "default"
    assert show(GOOD) == codes.OK
    assert capsys.readouterr().out.splitlines()[0].split() == ["KEY", "VALUE", "FROM"]
    assert diff(GOOD, GOOD) == codes.OK
    assert capsys.readouterr().out == "They don't differ.\n"
