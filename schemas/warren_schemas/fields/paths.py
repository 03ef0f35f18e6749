"""Paths as operators and authors of environments write them."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator


def absolute(path: str) -> str:
    """The same. Raises `ValueError`."""
    if not PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError("expected an absolute path without ..")
    return path


AbsolutePath = Annotated[str, AfterValidator(absolute)]
