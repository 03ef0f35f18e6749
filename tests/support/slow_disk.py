"""The training child on a disk that is slow to sync large files, or stops."""

import os
import signal
import time
from pathlib import Path
from typing import cast

from pydantic import BaseModel

from warren_gpu_worker.trainer.child.main import main

VARIABLE = "WARREN_TEST_DISK"


class Disk(BaseModel):
    stopped: Path
    """The disk stands still while there is such a file."""
    sync_s: float = 0.0
    slow_from_bytes: int = 0


def slow_down(disk: Disk) -> None:
    sync = os.fsync

    def slow_sync(descriptor: object) -> None:
        if disk.stopped.exists():
            signal.pause()
        if os.fstat(cast("int", descriptor)).st_size >= disk.slow_from_bytes:
            time.sleep(disk.sync_s)
        sync(cast("int", descriptor))

    os.fsync = slow_sync


if __name__ == "__main__":
    slow_down(Disk.model_validate_json(os.environ[VARIABLE]))
    main()
