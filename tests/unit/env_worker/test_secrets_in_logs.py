"""Secrets (parity row 56) are never logged: not by a traceback, nor by what an environment prints."""

import pytest

from warren_env_worker.permissions.secrets import Cleaner, without_secrets


def test_a_value_that_holds_another_is_cut_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_SECRET_SHORT", "abcdef")
    monkeypatch.setenv("WARREN_SECRET_LONG", "xyz-abcdef-xyz")
    assert without_secrets("a xyz-abcdef-xyz b abcdef") == "a <LONG> b <SHORT>"
    assert Cleaner().clean(b"\xff abcdef") == b"\xff <SHORT>"


def test_what_is_too_short_to_be_a_secret_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_SECRET_PIN", "12345")
    assert without_secrets("12345 pieces") == "12345 pieces"
