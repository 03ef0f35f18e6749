"""The files of a run's checkpoints and policies, as a gateway lists them, and how they are named."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.http import CheckpointList

SEAL = "SHA256SUMS"
"""The file that names all others of a folder, in the format of `sha256sum -c`."""


class FileView(Frozen):
    name: str
    size_bytes: NonNegativeInt
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FolderView(Frozen):
    """A checkpoint or a policy: a folder that is whole."""

    url: str
    """Where it lies; who reads it need not reach that."""
    files: tuple[FileView, ...]


def folder_url(found: CheckpointList, version: str) -> str | None:
    """The URL of what `version` names; the newest policy where it names nothing."""
    newest = [view.url for view in found.checkpoints[-1:]]
    if not version:
        return found.policy_url or next(iter(newest), None)
    for view in found.checkpoints:
        if version in (view.name, str(view.version), f"v{view.version}"):
            return view.url
    number = version.removeprefix("v")
    if found.policy_url is None or not number.isdecimal() or int(number) > found.policy_version:
        return None
    policies, _, _ = found.policy_url.rpartition("/")  # the newest few are kept there
    return f"{policies}/v{int(number)}"
