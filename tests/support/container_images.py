"""An image for containers, made from this machine's Python and libraries alone, in a store of the tests' own."""

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

IMAGE = "localhost/warren/tiny:1"
_PYTHON = "/usr/bin/python3"
_FOLDERS = ("usr/bin", "tmp", "etc", "proc", "dev", "sys", "root", "usr/lib", "usr/lib64")
SHELL = (
    "bash",
    "cat",
    "chmod",
    "cp",
    "env",
    "find",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sh",
    "sleep",
    "tar",
    "timeout",
    "touch",
)
"""What scripts need."""


@contextmanager
def podman_with_image(folder: Path, programs: Sequence[str] = ()) -> Generator[None]:
    """Podman, with the image, which has these programs of the machine besides. Skips the test where Podman can't run a container."""
    if shutil.which("podman") is None or not os.access(_PYTHON, os.X_OK):
        pytest.skip("podman is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(_written(folder / "containers.conf", _engine())))
        patch.setenv(
            "CONTAINERS_STORAGE_CONF", str(_written(folder / "storage.conf", _store(folder)))
        )
        archive = _archive(folder, programs)
        told = subprocess.run(
            ["podman", "import", archive, IMAGE], check=False, capture_output=True, text=True
        )
        if told.returncode:
            pytest.skip(f"podman can't import an image: {told.stderr[-300:]}")
        try:
            yield
        finally:
            subprocess.run(["podman", "rmi", "--force", IMAGE], check=False, capture_output=True)


def _engine() -> str:
    """`runc` where it is: `crun` of some age refuses machines that have both kinds of cgroups."""
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    limits = '[containers]\ndefault_ulimits = ["nofile=1024:1024"]\n'
    return f'{limits}[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n{runtime}'


def _store(folder: Path) -> str:
    places = f'graphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'
    return f'[storage]\ndriver = "vfs"\n{places}'


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _archive(folder: Path, programs: Sequence[str]) -> Path:
    """As small as may be: what Python needs, with its standard library, and these programs."""
    root = folder / "root"
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    python = Path(_PYTHON).resolve()
    library = Path("/usr/lib") / python.name
    shutil.copy2(python, root / "usr/bin/python3")
    ignored = shutil.ignore_patterns("test", "__pycache__", "config-*", "idlelib", "ensurepip")
    shutil.copytree(library, root / f"usr/lib/{library.name}", ignore=ignored, symlinks=True)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    copied = [Path("/usr/bin", name) for name in programs]
    for program in copied:
        shutil.copy2(program, root / "usr/bin")
    for path in _linked([python, *copied, *library.glob("lib-dynload/*.so")]):
        to = root / "usr" / path.removeprefix("/").removeprefix("usr/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)
    archive = folder / "root.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    shutil.rmtree(root)
    return archive


def _linked(files: list[Path]) -> set[str]:
    told = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(/(?:usr/)?lib[\w/.+-]*)(?= \()", told))
