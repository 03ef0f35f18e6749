"""Secrets (parity row 56) are never logged: not by a traceback, nor by what an environment prints."""

import pytest
from tests.support.hosting import Player, hosting, observed, refused
from tests.support.interacting import spec

from warren_env_worker.host.secrets import bytes_without_secrets, without_secrets

TOKEN = "hush-hush-1234"


@pytest.mark.parametrize(
    ("environment", "ways"),
    [
        ("Blabber", ("printed", "logged", "written", "raised")),
        ("SharedBlabber", ("printed", "logged", "raised")),
    ],
)
async def test_a_secret_reaches_the_environment_and_neither_the_log_nor_a_reason(
    environment: str,
    ways: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WARREN_SECRET_TOKEN", TOKEN)
    async with hosting(environment) as host:
        player = Player(host, spec(environment, secrets=("TOKEN",)))
        await observed(player.reset())
        refusal = await refused(player.step("a"))
    logged = capfd.readouterr().err
    assert "raised <TOKEN>" in refusal.reason
    for way in ways:
        assert f"{way} <TOKEN>" in logged
    assert TOKEN not in logged + refusal.reason


def test_a_value_that_holds_another_is_cut_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_SECRET_SHORT", "abcdef")
    monkeypatch.setenv("WARREN_SECRET_LONG", "xyz-abcdef-xyz")
    assert without_secrets("a xyz-abcdef-xyz b abcdef") == "a <LONG> b <SHORT>"
    assert bytes_without_secrets(b"\xff abcdef") == b"\xff <SHORT>"


def test_what_is_too_short_to_be_a_secret_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_SECRET_PIN", "12345")
    assert without_secrets("12345 pieces") == "12345 pieces"
