"""`warren gateway`: what it imports, and how it says no."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import free_port

from warren_gateway.commands import gateway
from warren_gateway.defaults import PORT
from warren_gateway.settings import GatewaySettings


def test_the_command_imports_nothing_heavy() -> None:
    heavy = {"pydantic", "aiohttp", "sqlalchemy", "tensorboard", "aio_pika", "torch"}
    code = f"import sys, warren_gateway.commands; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_without_a_broker_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        gateway()
    error = capsys.readouterr().err
    assert "--broker amqp://" in error
    assert "warren up" in error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 0}, "error: port: expected a number of at least 1, got 0\n"),
        ({"store": "mysql://db"}, "store_url: expected sqlite:///path or postgresql://"),
        ({"broker": "http://x"}, "is no broker URL"),
        ({"broker": "amqp://127.0.0.1:1"}, "--broker (WARREN_BROKER_URL)"),
        ({"store": f"postgresql://127.0.0.1:{free_port()}/x"}, "--store (WARREN_STORE_URL)"),
        ({"store": f"sqlite:///{__file__}"}, "--store (WARREN_STORE_URL)"),
        ({"home": Path(__file__) / "home"}, "--home (WARREN_HOME)"),
    ],
)
def test_what_can_not_work_is_one_sentence(
    options: dict[str, object],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WARREN_API_KEY", raising=False)
    given = {"broker": "memory:", "port": free_port(), "home": tmp_path, **options}
    with pytest.raises(SystemExit, match="1"):
        gateway(**given)  # pyright: ignore[reportArgumentType]
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert "Traceback" not in error


def test_the_default_port_is_told_once() -> None:
    assert GatewaySettings().port == PORT
