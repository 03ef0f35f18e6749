"""Secrets: named by the run, held by the env worker's environment, never told. Parity row 56."""

import pytest
from tests.support.hosting import Player, hosting, observed, refused
from tests.support.interacting import spec

from warren_schemas.episode import FailureKind

VALUE = "sk-0123456789"


async def test_row_56_an_environment_gets_the_secrets_that_were_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_SECRET_JUDGE_KEY", VALUE)
    monkeypatch.setenv("WARREN_SECRET_OTHER", "another")
    async with hosting("Secretive") as host:
        player = Player(host, spec("secretive", secrets=("JUDGE_KEY",)))
        shown = await observed(player.reset())
    assert [content for _, content, *_ in shown.messages] == [f"JUDGE_KEY={len(VALUE)}"]


async def test_row_56_a_secret_that_the_worker_lacks_fails_for_good() -> None:
    async with hosting("Secretive") as host:
        refusal = await refused(Player(host, spec("secretive", secrets=("NOT_THERE",))).reset())
    assert refusal.kind is FailureKind.ENVIRONMENT_CONFIG
    assert not refusal.is_retryable
    assert "start it with WARREN_SECRET_NOT_THERE in its environment" in refusal.reason


async def test_row_56_a_secret_is_cut_out_of_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_SECRET_JUDGE_KEY", VALUE)
    async with hosting("Secretive") as host:
        player = Player(host, spec("secretive", secrets=("JUDGE_KEY",)))
        await observed(player.reset())
        refusal = await refused(player.step("tell"))
    assert "401 for key <JUDGE_KEY>" in refusal.reason
    assert VALUE not in refusal.reason
