"""Servers that all suites share: one node and one database server for each test session."""

import gc
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from tests.support.built_models import keep_models
from tests.support.databases import share_compiled
from tests.support.private_postgres import postgres_server, private_postgres, store_template
from tests.support.private_rabbit import doomed_rabbit, private_rabbit
from tests.support.processes import kill_programs

__all__ = [
    "doomed_rabbit",
    "postgres_server",
    "private_postgres",
    "private_rabbit",
    "store_template",
]

# A suite of thousands of tests is no garbage: nothing is looked for while it is collected, nor in it while it runs.
gc.disable()

# In the background of a script we would ignore Ctrl-C, and so would every program that we start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A test says what must hold, never how fast: a loaded machine is no failure. And it asks the same each
# time: new examples are looked for by whoever has the time, and never by who changed something else.
settings.register_profile(
    "warren", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("warren")

share_compiled()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def build_models_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    keep_models(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def leave_no_program() -> Generator[None]:
    """A test that fails leaves behind what it started: no `warren train` may go on beside the next one."""
    yield
    kill_programs()
