"""What `warren env install NAME` makes, of the packages that `make ecosystems` has installed."""

import os
import subprocess
from pathlib import Path

from tests.support.patience import PATIENCE_S

from warren_env_worker.foreign import virtual_environments

ROOT = Path(__file__).parents[2]


def install(name: str, home: Path, *modules: Path) -> None:
    """In this home, with folders of modules besides."""
    os.environ["WARREN_HOME"] = str(home)
    made = ROOT / f".venv-{name}"
    command = [
        made / "bin" / "python",
        "-m",
        "venv",
        "--without-pip",
        virtual_environments.folder(name),
    ]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    (site,) = virtual_environments.folder(name).glob("lib/python*/site-packages")
    (packages,) = made.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text("\n".join(map(str, (packages, *modules))))
    virtual_environments.note_installed(name)
