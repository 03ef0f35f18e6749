"""`warren ors-server` as the client of openreward sees it."""

from pathlib import Path

import pytest
from tests.ecosystems.ors_server.serving import ROOT, client_program, ors_server

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


@pytest.mark.shows("ORS server", "tasks", "tools")
def test_the_client_of_openreward(tmp_path: Path) -> None:
    with ors_server(tmp_path, "--api-key", "key") as server:
        python = ROOT / ".venv-openreward" / "bin" / "python"
        seen = client_program(python, "client_openreward.py", server.url)
    failed = seen.pop("failed")
    assert "RuntimeError: kaput" in failed
    assert seen == {
        "splits": ["train", "test"],
        "n": 20,
        "final": True,
        "roles": ["system", "user", "assistant", "user"],
        "quoted": "May I look?",
        "system": "You open vaults.",
        "looked": ["1", 0.1, False],
        "ended": [1.0, True],
        "question": "25+57=",
        "answered": [0.0, True],
    }
