"""A large file of a store, fetched by several streams at once: one alone rarely fills the line.

Invariant: the file is whole, or an error is raised; what the store says of its size is what is fetched.
"""

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Protocol

from warren_gpu_worker.file_progress import Progress

PART_BYTES = 64 * 1024**2
N_STREAMS = 8


class Store(Protocol):
    """What is used of `fsspec.AbstractFileSystem`, which has no types."""

    def cat_file(self, path: str, start: int, end: int) -> bytes: ...


def fetch_in_parts(
    store: Store,
    path: str,
    target: Path,
    size_bytes: int,
    progress: Progress,
    *,
    part_bytes: int = PART_BYTES,
) -> None:
    """Raises `OSError`, and what the store raises."""
    with target.open("wb") as file, ThreadPoolExecutor(N_STREAMS, "download") as pool:
        file.truncate(size_bytes)

        def fetch(start: int) -> None:
            end = min(start + part_bytes, size_bytes)
            part = store.cat_file(path, start=start, end=end)
            if len(part) != end - start:
                raise OSError(f"{path} ended before byte {end} of {size_bytes}")
            os.pwrite(file.fileno(), part, start)

        fetches = [pool.submit(fetch, start) for start in range(0, size_bytes, part_bytes)]
        try:
            for done in as_completed(fetches):
                done.result()
                progress()
        finally:
            pool.shutdown(cancel_futures=True)
