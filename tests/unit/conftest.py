"""Tests of this folder start no process: one that would fails there. Such tests are in `tests/process`."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.gateway_fixtures import broker, empty_store, store

__all__ = ["broker", "empty_store", "store"]

HERE = Path(__file__).parent
STARTING = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}

_running: list[pytest.Item] = []


def _refuse(event: str, _: tuple[object, ...]) -> None:
    if _running and event in STARTING:
        raise RuntimeError(f"{_running[-1].nodeid} starts a process: it belongs into tests/process")


sys.addaudithook(_refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Called for the tests of all folders: which conftest it stands in makes no difference."""
    if not item.path.is_relative_to(HERE):
        return (yield)
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()
