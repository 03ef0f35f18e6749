"""The seal of exported weights, checked by sha256sum."""

import subprocess
from pathlib import Path

from tests.support.sealed_folders import url, write_text

__all__ = ["url"]


def test_the_seal_is_one_that_sha256sum_checks(tmp_path: Path) -> None:
    write_text("hello", str(tmp_path / "it"))
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=tmp_path / "it", check=True)
