"""`warren env install`.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

from pathlib import Path


def install(name: str, /, *, python: Path | None = None) -> None:
    """Install a foreign environment package in a virtual environment of its own.

    Env workers then host its environments: by themselves, or by --env NAME. What was installed before is replaced.

    For example:
        warren env install gymnasium

    Parameters
    ----------
    name
        Which one: `alfworld`, `gem`, `gymnasium` (Gymnasium and MiniGrid), `harbor` (needs Python 3.12), `inspect_ai`, `mcp`, `textarena`, `textworld`, `verifiers` or `verifiers_v0` (its older API).
    python
        Python that makes the virtual environment (default: the one that runs this).
    """
    import sys

    from warren.display.output import make_output
    from warren.errors import ConfigurationError
    from warren_env_worker.foreign import virtual_environments
    from warren_schemas.text.explain import nearest

    known = virtual_environments.names()
    if name not in known:
        match = nearest(name, known)
        rest = f"did you mean {match}?" if match else f"there are: {', '.join(known)}"
        raise ConfigurationError(f"There is no list of packages for {name}; {rest}")
    output, folder = make_output(), virtual_environments.folder(name)
    output.line(f"Installing {name} in {folder}")
    listed = ["-r", str(virtual_environments.requirements(name))]
    for command in (
        [str(python or sys.executable), "-m", "venv", "--clear", str(folder)],
        [str(virtual_environments.python(name)), "-m", "pip", "install", "--quiet", *listed],
    ):
        if not _succeeds(command):
            raise ConfigurationError(
                f"{name} could not be installed: {' '.join(command)} failed",
                hint="What it printed says why; settings of pip (PIP_INDEX_URL, …) are used.",
            )
    virtual_environments.note_installed(name)
    output.line(f"Installed. Host it with: warren env-worker --env {name}")


def _succeeds(command: list[str]) -> bool:
    import subprocess

    try:
        return subprocess.run(command, check=False).returncode == 0
    except OSError:
        return False
