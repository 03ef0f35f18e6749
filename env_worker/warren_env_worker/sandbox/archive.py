"""The program that runs inside."""

from functools import lru_cache
from pathlib import Path

from warren.isolation.archives import archive

_PACKAGE = "warren_env_worker.sandbox.inside"


@lru_cache(maxsize=1)
def inside() -> bytes:
    """A zip file that Python runs: the modules of `inside`, and how to start them."""
    files = sorted((Path(__file__).parent / "inside").glob("*.py"))
    modules = {f"{_PACKAGE}.{file.stem}": file for file in files if file.stem != "__init__"}
    return archive(f"{_PACKAGE}.supervisor", modules)
