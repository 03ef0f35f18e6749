"""`warren env test`.

Invariant: importing this module loads nothing heavy.
"""

from typing import Annotated

from cyclopts import Parameter

PLUGIN = "warren_env_worker.authoring.plugin"


def test(
    *arguments: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="Of pytest: files, folders, -k, -x.")
    ],
) -> int:
    """Run the tests of an environment by pytest, with the fixtures `play` and `check`.

    `play(Class, policy)` plays an episode in a process of its own, as an env worker does, and `check(Class)` fails
    where `warren env check` would. By pytest alone: `pytest -p warren_env_worker.authoring.plugin`.

    For example:
        warren env test
        warren env test test_my_env.py -k reward
    """
    import subprocess
    import sys
    from importlib.util import find_spec

    from warren.errors import ConfigurationError

    if find_spec("pytest") is None:
        raise ConfigurationError("pytest is not installed", hint="pip install pytest")
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, *arguments]
    return subprocess.run(command, check=False).returncode
