"""Where a sealed folder may lie, and one with a text in it."""

from pathlib import Path

import pytest

from warren_gpu_worker.atomic_folder import write_folder


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
