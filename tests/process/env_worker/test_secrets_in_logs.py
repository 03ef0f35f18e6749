"""Secrets (parity row 56) are never logged by an environment's process, whatever it prints."""

import pytest
from tests.support.hosting import Player, hosting, observed, refused
from tests.support.interacting import spec

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
