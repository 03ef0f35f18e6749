"""The environment `alfworld` as `warren env install alfworld` leaves it, on what `make ecosystems` has installed."""

import os
from pathlib import Path

import pytest
from tests.support.hosting import child_pids
from tests.support.processes import children

from warren_env_worker.foreign import virtual_environments

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-alfworld" / "bin" / "python"
CLASS = "warren_env_worker.environments.alfworld.environment:AlfWorld"


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of the children of this test's process."""
    os.environ["WARREN_HOME"] = str(tmp_path_factory.mktemp("home"))
    virtual_environments.folder("alfworld").parent.mkdir()
    virtual_environments.folder("alfworld").symlink_to(PYTHON.parents[1])
    virtual_environments.note_installed("alfworld")


def fork_server() -> int:
    """Of the one host that this process has."""
    (host,) = child_pids()
    (server,) = children(host)
    return server
