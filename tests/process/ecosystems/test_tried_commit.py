"""The commit that a row of docs/ecosystems.md was shown at."""

import subprocess
from pathlib import Path

import pytest
from tests.ecosystems.tried import PAGE, commit

WHEN = "2026-01-02T12:00:00 +0000"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a page."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", WHEN)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    (tmp_path / PAGE).parent.mkdir()
    (tmp_path / PAGE).write_text("a table\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=a page")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def test_a_commit_is_told_with_its_date_and_whether_anything_but_the_page_differs(
    root: Path,
) -> None:
    clean = commit(root)
    date, short = clean.split()
    assert (date, len(short)) == ("2026-01-02", 8)
    (root / PAGE).write_text("another table\n")
    assert commit(root) == clean
    (root / "new.py").write_text("")
    assert commit(root) == f"{clean}, changed"
