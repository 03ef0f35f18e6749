"""Where the process that hosts a run's episodes finds the one that plays them: at a socket, which a token names."""

import tempfile
from pathlib import Path

PREFIX = "OfferedAt_"
"""`OfferedAt_1f2e` is the environment that offers at `socket_path("1f2e")`: env workers host classes by their names."""


def folder_of(token: str) -> Path:
    return Path(tempfile.gettempdir()) / f"warren-episodes-{token}"


def socket_path(token: str) -> Path:
    """In a folder that only the user who made it may open."""
    return folder_of(token) / "socket"
