"""The program that runs inside, as a file without a name that any child can be handed.

No path of ours has to be readable for the user that a sandbox runs as, and none shows up inside.
"""

import os
import zipfile
from functools import lru_cache
from io import BytesIO
from pathlib import Path

_PACKAGE = "warren_env_worker/sandbox/inside"
_START = "from warren_env_worker.sandbox.inside.supervisor import main\n\nmain()\n"


def descriptor_of(content: bytes) -> int:
    """A readable descriptor of a nameless file with this content; the caller closes it."""
    descriptor = os.memfd_create("warren-sandbox")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@lru_cache(maxsize=1)
def archive() -> bytes:
    """A zip file that Python runs: the modules of `inside`, and how to start them."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("__main__.py", _START)
        file.writestr("warren_env_worker/__init__.py", "")
        file.writestr("warren_env_worker/sandbox/__init__.py", "")
        for module in sorted((Path(__file__).parent / "inside").glob("*.py")):
            file.writestr(f"{_PACKAGE}/{module.name}", module.read_bytes())
    return buffer.getvalue()
