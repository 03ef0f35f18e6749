"""Files without a name that any child can be handed, and modules in one of them.

No path of ours has to be readable for the user that a program runs as, and none shows up inside.
"""

import os
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path


def descriptor_of(content: bytes) -> int:
    """A readable descriptor of a nameless file with this content; the caller closes it."""
    descriptor = os.memfd_create("warren")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def archive(main: str, modules: Mapping[str, Path]) -> bytes:
    """A zip file that Python runs: it calls `main()` of that module. The packages that hold its modules, which are
    given by their dotted names, are empty in it."""
    packages = {f"{parent}/__init__.py" for name in modules for parent in _parents(name)}
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("__main__.py", f"from {main} import main\n\nmain()\n")
        for package in sorted(packages):
            file.writestr(package, "")
        for name, path in sorted(modules.items()):
            file.writestr(f"{name.replace('.', '/')}.py", path.read_bytes())
    return buffer.getvalue()


def _parents(name: str) -> list[str]:
    parts = name.split(".")[:-1]
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
