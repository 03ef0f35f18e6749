"""The environment `alfworld` as `warren env install alfworld` leaves it, on what `make ecosystems-all` has installed."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.hosting import child_pids
from tests.support.processes import children

from warren_env_worker.foreign import places

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-alfworld" / "bin" / "python"
CLASS = "warren_env_worker.environments.alfworld.environment:AlfWorld"


@contextmanager
def installed(home: Path) -> Generator[None]:
    """For the children of this test's process."""
    before = os.environ.get("WARREN_HOME")
    os.environ["WARREN_HOME"] = str(home)
    places.folder("alfworld").parent.mkdir(parents=True)
    places.folder("alfworld").symlink_to(PYTHON.parents[1])
    places.note_installed("alfworld")
    try:
        yield
    finally:
        del os.environ["WARREN_HOME"]
        if before is not None:
            os.environ["WARREN_HOME"] = before


def fork_server() -> int:
    """Of the one host that this process has."""
    (host,) = child_pids()
    (server,) = children(host)
    return server
