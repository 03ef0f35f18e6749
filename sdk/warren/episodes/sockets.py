"""The socket, named by a token, at which hosted episodes reach the process that plays them."""

import tempfile
from pathlib import Path

PREFIX = "OfferedAt_"
"""`OfferedAt_1f2e` is the environment that offers at `socket_path("1f2e")`: env workers host classes by their names."""


def folder_of(token: str) -> Path:
    return Path(tempfile.gettempdir()) / f"warren-episodes-{token}"


def socket_path(token: str) -> Path:
    """In a folder that only the user who made it may open."""
    return folder_of(token) / "socket"
