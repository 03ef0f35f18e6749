"""Scratch folders: gone with their process, however it ended, and never anybody else's."""

import subprocess
import sys
from pathlib import Path

from warren_gpu_worker.memory_folder import Scratch

_OWNER = """
import sys, time
from pathlib import Path
from warren_gpu_worker.memory_folder import Scratch
print(Scratch("thing", Path(sys.argv[1])).folder, flush=True)
time.sleep(100)
"""


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        (folder / "weights").write_text("many")
        beside = Scratch("thing", tmp_path)
        assert folder.exists(), "its owner lives"
        owner.kill()
    after = Scratch("thing", tmp_path)
    assert not folder.exists()
    assert beside.folder.exists()
    beside.close()
    after.close()
    assert list(tmp_path.iterdir()) == []
