"""Whether a base model is the same on two machines, without reading all of it."""

import hashlib
import os
from pathlib import Path

_SAMPLE_BYTES = 1 << 20
"""Read of a file's beginning, and of its end: weights that were trained on differ in every tensor."""


def fingerprint(folder: str) -> str:
    """Digest of names and sizes of its config and weights, and of a sample of each. Raises `OSError`."""
    digest = hashlib.sha256()
    files = [Path(folder, "config.json"), *sorted(Path(folder).glob("*.safetensors"))]
    for path in files:
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            digest.update(f"{path.name} {size_bytes} ".encode())
            digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, size_bytes - _SAMPLE_BYTES))
            digest.update(file.read())
    return digest.hexdigest()
