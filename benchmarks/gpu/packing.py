"""What a GPU machine without a network needs: gathered by `make gpu-pack`, unpacked by `make gpu`.

The folder holds archives (`*.tar.xz`, of vLLM and what it needs, from wherever you have them) and wheels
of what Warren and its peer import and such a machine lacks, for its Python, not for this one.
"""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

MAX_BYTES = 60 * 1024**2
"""Of all of it, as much as travels."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")  # fmt: skip
WHEELS = (
    "aio-pika", "aiohttp-sse", "aiormq", "alembic", "cyclopts", "datasets", "dill", "docutils", "greenlet", "mako",
    "multiprocess", "orjson", "pamqp", "psycopg", "rich-rst", "sqlalchemy", "sqlmodel", "trl",
)  # fmt: skip
"""Of Warren, and of TRL, which is measured beside it. torch, transformers, peft, accelerate, pyarrow, pydantic and
aiohttp the machine or the archives have."""


def pack(archives: Path, folder: Path, versions: Path) -> int:
    """Gather both; the size in bytes. Versions are those of the constraints file where it names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for archive in sorted(archives.glob("*.tar.xz")):
        shutil.copyfile(archive, folder / archive.name)
    pinned = dict(
        line.lower().split("==", 1) for line in versions.read_text().splitlines() if "==" in line
    )
    wanted = [f"{name}=={pinned[name]}" if name in pinned else name for name in WHEELS]
    for old in folder.glob("*.whl"):
        old.unlink()
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
            "--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp",
            *platforms, "--dest", str(folder), *wanted,
        ],
        check=True,
    )  # fmt: skip
    size_bytes = sum(file.stat().st_size for file in folder.iterdir())
    if size_bytes > MAX_BYTES:
        raise SystemExit(f"{size_bytes} bytes, and {MAX_BYTES} travel")
    return size_bytes


def unpack(folder: Path, site: Path) -> str:
    """Into a folder for PYTHONPATH, once; where there is nothing to unpack, nothing is."""
    done = site / ".complete"
    if not done.exists():
        site.mkdir(parents=True, exist_ok=True)
        for archive in sorted(folder.glob("*.tar.xz")):
            with tarfile.open(archive) as file:
                file.extractall(site, filter="data")
        for wheel in sorted(folder.glob("*.whl")):
            with zipfile.ZipFile(wheel) as file:
                file.extractall(site)
        done.touch()
    return str(site)


if __name__ == "__main__":
    archives, folder, versions = map(Path, sys.argv[1:])
    print(f"{pack(archives, folder, versions) / 1024**2:.1f} MiB in {folder}")
