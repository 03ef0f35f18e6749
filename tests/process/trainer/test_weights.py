"""The seal of exported weights, checked by sha256sum."""

import subprocess
from pathlib import Path

import pytest

from warren_gpu_worker.atomic_folder import (
    write_folder,
)


def write_text(text: str, url: str) -> int:
    return write_folder(url, lambda folder: (folder / "text").write_text(text))


@pytest.fixture(params=["plain", "file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "plain":
            return str(tmp_path / "some folder")
        case "file":
            return (tmp_path / "folder").as_uri()
        case _:
            return f"memory://{tmp_path.name}/folder"


def test_the_seal_is_one_that_sha256sum_checks(tmp_path: Path) -> None:
    write_text("hello", str(tmp_path / "it"))
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=tmp_path / "it", check=True)
