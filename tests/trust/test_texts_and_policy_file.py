"""What is told without secrets, and the file that says what configs may reach."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.trust.permitted import JUDGE, KEY, VALUE, permissions, policy

from warren.environment import ConfigError
from warren.errors import ConfigurationError
from warren_env_worker.permissions.policy_file import policy_of
from warren_env_worker.permissions.reading import READ_BYTES, ReaderApart
from warren_env_worker.permissions.sealed import Sealed
from warren_env_worker.permissions.secrets import Cleaner, remember, shortened
from warren_schemas.config import EnvironmentConfig, OwnReward
from warren_schemas.episode import TaskRef
from warren_schemas.operator_policy import TRUSTING, OperatorPolicy

TO_JUDGE: dict[str, Any] = {
    "secrets": {"JUDGE": {"owners": ["ann"], "urls": [JUDGE]}},
    "services": [{"url": JUDGE}],
}


@pytest.fixture(autouse=True)
def _a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, VALUE)


def test_secrets_are_cut_out_before_a_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "s" * 168)
    assert shortened("x" * 250 + "s" * 168, 300) == "x" * 250 + "<JUDGE>"


def test_a_secret_that_comes_in_pieces_is_cut_out() -> None:
    for cut in range(1, len(VALUE)):
        cleaner = Cleaner()
        told = cleaner.clean(b"a " + VALUE[:cut].encode()) + cleaner.clean(VALUE[cut:].encode())
        assert told + cleaner.rest() == b"a <JUDGE>"
    cleaner = Cleaner()
    assert cleaner.clean(b"a sk-0") + cleaner.rest() == b"a sk-0"


def test_each_line_of_a_secret_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "-----BEGIN KEY-----\nabcdefgh\nijklmnop")
    assert Cleaner().clean(b"[tag] abcdefgh\n[tag] ijklmnop\n") == b"[tag] <JUDGE>\n[tag] <JUDGE>\n"


def test_secrets_that_a_child_was_told_are_known_there() -> None:
    remember({"TOLD": "told-0123"})
    assert shortened("x told-0123", 300) == "x <TOLD>"


def test_a_policy_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        f"secrets:\n  JUDGE: {{owners: [ann], urls: ['{JUDGE}']}}\n"
        f"services: [{{url: '{JUDGE}score', owners: [bob, ann]}}]\ndata_root: {tmp_path}\n"
    )
    found = policy_of(path, otherwise=TRUSTING)
    assert not found.trusts_configs
    assert found.secrets["JUDGE"].owners == ("ann",)
    assert policy_of(None, otherwise=TRUSTING) is TRUSTING
    path.write_text("")
    assert policy_of(path, otherwise=TRUSTING) == OperatorPolicy()


@pytest.mark.parametrize(
    "text",
    [
        "secret: {}",
        "[1",
        "trusts_configs: true\ndata_root: /",
        "data_root: data",
        "1",
        "agents: {box: {memory_mib: 0}}",
        "agents: {box: {network: none}}",
        "agents: {box: {readable: [a]}}",
        "agents: {memory_mib: 9}",
        "kubernetes: {}",
        "kubernetes: {namespace: Sand/Boxes}",
        "kubernetes: {namespace: boxes, kubeconfig: config}",
        "kubernetes: {namespace: boxes, privileged: true}",
    ],
)
def test_a_policy_file_that_will_not_do(text: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError):
        policy_of(path, otherwise=TRUSTING)
    with pytest.raises(ConfigurationError, match="can't be read"):
        policy_of(tmp_path / "none.yaml", otherwise=TRUSTING)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"services": [{"url": "https://judge/v1/../"}]}, "services.0.url: .* or .. in it"),
        ({"services": [{"url": "https://judge/a b/"}]}, "services.0.url: .* spaces"),
        ({"services": [{"url": "https://judge/%2e%2e/x"}]}, "services.0.url: "),
        ({"secrets": {"A": {"owners": ["ann"], "urls": ["https://h/..;/"]}}}, "secrets.A.urls.0: "),
        ({"secrets": {"A": {"owners": ["ann"], "urls": [JUDGE]}}}, "sent nowhere"),
        (
            {
                "secrets": {"A": {"owners": ["ann"], "urls": [JUDGE]}},
                "services": [
                    {"url": JUDGE, "owners": ["bob"]},
                    {"url": "https://judge.example.org/v2/"},
                ],
            },
            "sent nowhere",
        ),
        ({"variables": ["HTTPS_PROXY", "PATH"]}, "variables.1: PATH is passed on anyway"),
        ({"variables": ["LC_ALL"]}, "variables.0: "),
        ({"data_root": "/nowhere"}, "data_root: /nowhere is no folder"),
        ({"sandbox": {"python": ["/usr"]}}, "sandbox.python.0: /usr is no program"),
        ({"commands": [{"command": ["/usr"]}]}, "commands.0.command: /usr is no program"),
        ({"sandbox": {"libraries": ["/nowhere"]}}, "sandbox.libraries.0: /nowhere is no folder"),
        ({"agents": {"box": {"readable": ["/nowhere"]}}}, "agents.box.readable.0: /nowhere is not"),
        (
            {"kubernetes": {"namespace": "boxes", "kubeconfig": "/nowhere"}},
            "kubernetes.kubeconfig: /nowhere is no file",
        ),
    ],
)
def test_rules_that_would_not_do_what_they_say(
    fields: dict[str, Any], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(fields))
    with pytest.raises(ConfigurationError) as refused:
        policy_of(path, otherwise=TRUSTING)
    assert re.search(told, "\n".join(refused.value.details))


@pytest.mark.parametrize(
    "fields",
    [
        {"secrets": {"A": {"owners": ["ann"]}}},
        {"secrets": {"A": {"owners": [], "urls": [JUDGE]}}},
        {"services": [{"url": "judge"}]},
        {"services": [{"url": "https://user:pw@judge/"}]},
        {"services": [{"url": "https://judge/?a=b"}]},
        {"services": [{"url": "https://judge/v1?"}]},
        {"services": [{"url": "https://judge/v1#"}]},
        {"functions": ["os"]},
        {"functions": ["*:*"]},
        {"data_root": "/data/../etc"},
        {"sandbox": {"python": ["python3"]}},
        {"commands": [{"command": ["python3", "x.py"]}]},
        {"commands": [{"command": [""]}]},
        {"variables": ["WARREN_BROKER_URL"]},
    ],
)
def test_rules_that_will_not_do(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        policy(**fields)


@pytest.mark.parametrize(
    "text", ["", "x" * 129, "train\n2026-11-23T00:00:00Z root: forged", "\x1b[31mred", "a b", "é"]
)
def test_names_that_would_forge_a_line_of_a_log_or_of_a_table_are_refused(text: str) -> None:
    cases: tuple[dict[str, object], ...] = (
        {"split": text},
        {"evaluation_split": text},
        {"splits": {text: {}}},
    )
    for changes in cases:
        with pytest.raises(ValidationError):
            EnvironmentConfig.model_validate({"name": "echo", **changes})
    with pytest.raises(ValidationError):
        TaskRef(split=text, index=0)
    with pytest.raises(ValidationError):
        OwnReward.model_validate({"name": text})


def test_secrets_that_are_passed_on_are_cut_out_where_they_lie() -> None:
    sealed = Sealed.of(
        {"TOLD": "told-0123\nand-4567", "LONG": "told-0123-long", "PIN": "12345"},
        {"WARREN_SECRET_A": "key-89ab"},
    )
    text = (
        b"told-0123\nand-4567|and-4567|told-0123-long|key-89ab|12345|told-012" + b"x" * READ_BYTES
    )
    cleaned = b"<TOLD>|<TOLD>|<LONG>|<A>|12345|told-012" + b"x" * READ_BYTES
    source, sink = os.pipe()
    for n_bytes in (1, 7, 100):
        reader, told = ReaderApart(source, sealed.lines()), b""
        for begin in range(0, 200, n_bytes):
            os.write(sink, text[:200][begin : begin + n_bytes])
            told += reader.read() or b""
        assert told + reader.clean(text[200:]) + reader.rest() == cleaned
    assert reader.clean(b"a key-89a") + reader.rest() == b"a <A>"
    assert reader.clean(b"a key-8") + reader.rest() == b"a key-8"
    os.close(sink)
    assert reader.read() is None
    os.close(source)
    assert sealed.opened() == (
        {"TOLD": "told-0123\nand-4567", "LONG": "told-0123-long", "PIN": "12345"},
        {"WARREN_SECRET_A": "key-89ab"},
    )


def test_a_key_is_not_told_where_tasks_are_loaded() -> None:
    confined = permissions(config={"key_variable": KEY}, **TO_JUDGE).without_values()
    assert VALUE not in str(confined.values_of_keys)

    async def ask() -> None:
        async with confined.service(JUDGE, KEY).session(1.0):
            pass

    with pytest.raises(ConfigError, match="called with a key while tasks load"):
        asyncio.run(ask())
