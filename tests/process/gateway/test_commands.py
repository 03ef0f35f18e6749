"""`warren gateway`, the command."""

import subprocess
import sys


def test_the_command_imports_nothing_heavy() -> None:
    heavy = {"aiohttp", "sqlalchemy", "tensorboard", "aio_pika", "torch"}
    code = f"import sys, warren_gateway.commands; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
