"""Defaults that the command line shows; without imports, so that `warren --help` stays quick."""

import os
from pathlib import Path

HOST = "127.0.0.1"
PORT = 8642
LEASE_S = 6.0
"""Of a run, to the gateway that drives it."""


def warren_home() -> Path:
    """`$WARREN_HOME`, or `~/.warren`."""
    return Path(os.environ.get("WARREN_HOME") or Path.home() / ".warren")
