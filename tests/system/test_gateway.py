"""`warren gateway` as a process of its own, on RabbitMQ: starts, serves, stops, says why it can't."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import pytest
from tests.support.gateway import CONFIG
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import end, free_port, signal_group, spawn, wait_until

import warren

COMMAND = [sys.executable, "-m", "warren", "gateway"]
"""5 s, on a machine with nothing else to do; who takes longer is killed, and so fails."""


class Process:
    def __init__(self, home: Path, broker: str, store: str | None, port: int) -> None:
        self.home = home
        self.port = port
        self.log = home.with_suffix(".log")
        environment = {**os.environ, "WARREN_BROKER_URL": broker, "WARREN_HOME": str(home)}
        if store:
            environment["WARREN_STORE_URL"] = store
        command = [*COMMAND, "--port", str(port)]
        self.process = spawn(command, log_path=self.log, environment=environment)

    def wait(self) -> None:
        wait_until(self._is_healthy, self.process, deadline_s=PATIENCE_S, log_path=self.log)

    def ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        key = (self.home / "api-key").read_text().strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.load(response)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/healthz", timeout=PATIENCE_S
            ):
                return True
        except (URLError, OSError):
            return False


@contextmanager
def started(
    home: Path, broker: str, *, store: str | None = None, port: int | None = None
) -> Generator[Process]:
    gateway = Process(home, broker, store, port or free_port())
    try:
        yield gateway
    finally:
        signal_group(gateway.process, signal.SIGKILL)
        gateway.process.wait()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_stops_in_good_order(
    private_rabbit: PrivateRabbit, tmp_path: Path, signum: signal.Signals
) -> None:
    with started(tmp_path / "home", private_rabbit.url) as gateway:
        gateway.wait()
        assert gateway.ask("GET", "/v1/runs") == {"runs": []}
        end(gateway.process, signum, grace_s=STOP_S)
        assert gateway.process.returncode == 0
        assert "Traceback" not in gateway.log.read_text()
        assert (gateway.home / "api-key").read_text().strip() not in gateway.log.read_text()


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_killed_gateway_goes_on_with_its_runs(
    private_rabbit: PrivateRabbit,
    tmp_path: Path,
    database: str,
    request: pytest.FixtureRequest,
) -> None:
    store: str | None = None
    if database == "postgresql":
        full: str = request.getfixturevalue("private_postgres")
        store = full.replace("+psycopg", "")  # as people write it
    home, body = tmp_path / "home", {"config": CONFIG, "idempotency_key": "once and for all"}
    with started(home, private_rabbit.url, store=store) as gateway:
        gateway.wait()
        run = gateway.ask("POST", "/v1/runs", body)["id"]
        signal_group(gateway.process, signal.SIGKILL)
        gateway.process.wait()
    with started(home, private_rabbit.url, store=store) as gateway:
        gateway.wait()
        assert gateway.ask("POST", "/v1/runs", body)["id"] == run
        gateway.ask("POST", f"/v1/runs/{run}/cancel")
        events = _events(gateway, str(run))
        assert events[0]["body"] == {
            "kind": "state_changed", "state": "queued", "phase": None, "reason": None, "outcome": None,
        }  # fmt: skip
        assert events[-1]["body"]["state"] == "cancelled"


async def test_a_gateway_that_is_killed_while_a_sweep_is_submitted_makes_no_twins(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """Its client goes on once there is one again, and each combination has one run."""
    home, port = tmp_path / "home", free_port()
    with started(home, private_rabbit.url, port=port) as gateway:
        gateway.wait()
        key = (home / "api-key").read_text().strip()
        async with warren.connect(
            f"http://127.0.0.1:{port}", key, retry_s=PATIENCE_S, timeout_s=PATIENCE_S
        ) as client:
            submitting = asyncio.create_task(client.sweep(CONFIG, {"seed": list(range(24))}))
            while len(await client.runs()) < 3:
                pass
            signal_group(gateway.process, signal.SIGKILL)
            gateway.process.wait()
            with started(home, private_rabbit.url, port=port) as again:
                await asyncio.to_thread(again.wait)
                sweep = await submitting
                runs = await client.runs(sweep=sweep.name)
    assert [run.id for run in reversed(runs)] == [run.id for run in sweep.runs]
    assert [run.view.config.seed for run in sweep.runs if run.view.config] == list(range(24))


def test_a_second_gateway_on_the_same_port_says_so(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    with started(tmp_path / "one", private_rabbit.url) as one:
        one.wait()
        with started(tmp_path / "two", private_rabbit.url, port=one.port) as two:
            assert two.process.wait(PATIENCE_S) == 1
            assert f"port {one.port} on 127.0.0.1 is in use" in two.log.read_text()
            assert "Traceback" not in two.log.read_text()


def test_the_help_shows_examples() -> None:
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True)
    assert "warren gateway --broker amqp://localhost" in done.stdout
    for option in ("--store", "--port", "--home", "--runs-dir", "WARREN_BROKER_URL"):
        assert option in done.stdout


def _events(gateway: Process, run: str) -> list[dict[str, dict[str, object]]]:
    """All events of a run that ends."""
    key = (gateway.home / "api-key").read_text().strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{gateway.port}/v1/runs/{run}/events",
        headers={"Authorization": f"Bearer {key}"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        lines = response.read().decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
