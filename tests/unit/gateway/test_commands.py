"""`warren gateway`: what it imports, and how it says no."""

from pathlib import Path

import pytest
from tests.support.processes import free_port

from warren.cli.app import run
from warren.cli.guard import guarded
from warren_gateway.defaults import PORT
from warren_gateway.settings import GatewaySettings


def told_by(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the command, which refuses these options, says."""
    tokens = ["gateway", *options]
    assert guarded(lambda: run(tokens), tokens) in (1, 2)
    return capsys.readouterr().err


def test_without_a_broker_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    error = told_by(capsys)
    assert "--broker amqp://" in error
    assert "warren up" in error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "0"], "port: expected a number of at least 1, got '0'\n"),
        (["--store", "mysql://db"], "store_url: expected sqlite:///path or postgresql://"),
        (["--broker", "http://x"], "is no broker URL"),
        (["--broker", "amqp://127.0.0.1:1"], "--broker (WARREN_BROKER_URL)"),
        (["--store", f"postgresql://127.0.0.1:{free_port()}/x"], "--store (WARREN_STORE_URL)"),
        (["--store", f"sqlite:///{__file__}"], "--store (WARREN_STORE_URL)"),
        (["--home", str(Path(__file__) / "home")], "--home (WARREN_HOME)"),
    ],
)
def test_what_can_not_work_is_said(
    options: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WARREN_API_KEY", raising=False)
    given = {"--broker": "memory:", "--port": str(free_port()), "--home": str(tmp_path)}
    given.pop(options[0], None)
    error = told_by(capsys, *(word for pair in given.items() for word in pair), *options)
    assert error.startswith("error: ")
    assert words in error
    assert "Traceback" not in error


def test_the_default_port_is_told_once() -> None:
    assert GatewaySettings().port == PORT
