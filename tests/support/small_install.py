"""`warren` where only the small install is: `pip install .` in a clone, without any extra.

Everything that an extra brings is hidden from the interpreter, so an import of it fails as it would there.
"""

import sys

HIDDEN = (
    "aio_pika", "aiohttp_sse", "alembic", "fsspec", "matplotlib", "pandas", "peft", "pyarrow",
    "safetensors", "sqlalchemy", "sqlmodel", "tensorboard", "torch", "transformers", "uvloop",
)  # fmt: skip
_PROGRAM = f"""
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    return None if name.partition(".")[0] in {HIDDEN!r} else found(name, package)
importlib.util.find_spec = find_spec
"""


def small_python(program: str) -> list[str]:
    """The command that runs this there."""
    return [sys.executable, "-c", f"{_PROGRAM}\n{program}"]


SMALL_WARREN = small_python("from warren.__main__ import main\nmain()")
"""The command; its arguments follow."""
