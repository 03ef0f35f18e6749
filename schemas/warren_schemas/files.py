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


def folder_url(found: CheckpointList, wanted: str) -> str | None:
    """The URL of what `wanted` names, a step or a checkpoint; the newest policy where it names nothing."""
    if not wanted:
        newest = [view.url for view in (*found.checkpoints, *found.policies)]
        return newest[-1] if newest else None
    is_step = wanted.isascii() and wanted.isdecimal()
    for view in found.checkpoints:
        if view.name in (wanted, f"step-{int(wanted):06d}" if is_step else ""):
            return view.url
    policy = found.policy_after(int(wanted)) if is_step else None
    return policy and policy.url


def absence(found: CheckpointList, wanted: str) -> tuple[str, str]:
    """What there is not, and what there is instead."""
    called = f"step {wanted}" if wanted.isdecimal() else f"checkpoint {wanted}"
    what = f"no policy of {called}" if wanted else "saved nothing yet"
    names = ", ".join(view.name for view in found.checkpoints) or "none"
    kept = f"step {found.policies[0].step} on" if found.policies else "none"
    hint = f"It is at step {found.step}. Its checkpoints: {names}; policies that are kept: {kept}."
    return what, hint
