"""The files of a run's checkpoints and policies, as a gateway lists them, and how they are named."""

from typing import Annotated, NamedTuple

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.http import CheckpointList
from warren_schemas.http.checkpoints import PolicyView

SEAL = "SHA256SUMS"
"""The file that names all others of a folder, in the format of `sha256sum -c`."""


class FileView(Frozen):
    name: str
    size_bytes: NonNegativeInt
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FolderView(Frozen):
    """A checkpoint or a policy: a folder that is whole."""

    version: str
    """What names exactly this one, however the run goes on: a checkpoint's name, or `v` and a policy version."""
    url: str
    """Where it lies; who reads it need not reach that."""
    files: tuple[FileView, ...]


class NamedFolder(NamedTuple):
    version: str
    """As in `FolderView`."""
    url: str


def find_folder(found: CheckpointList, wanted: str) -> NamedFolder | None:
    """What `wanted` names: a step (`40`), a policy version (`v40`) or a checkpoint; the newest policy where it
    names nothing."""
    checkpoints = [NamedFolder(view.name, view.url) for view in found.checkpoints]
    policies = [_named(policy) for policy in found.policies]
    if not wanted:
        return next(reversed([*checkpoints, *policies]), None)
    is_step = wanted.isascii() and wanted.isdecimal()
    names = (wanted, f"step-{int(wanted):06d}" if is_step else "")
    for folder in (*checkpoints, *policies):
        if folder.version in names:
            return folder
    policy = found.policy_after(int(wanted)) if is_step else None
    return policy and _named(policy)


def _named(policy: PolicyView) -> NamedFolder:
    return NamedFolder(f"v{policy.version}", policy.url)


def absence(found: CheckpointList, wanted: str) -> tuple[str, str]:
    """What there is not, and what there is instead."""
    what = f"no policy of {_called(wanted)}" if wanted else "saved nothing yet"
    names = ", ".join(view.name for view in found.checkpoints) or "none"
    kept = f"step {found.policies[0].step} on" if found.policies else "none"
    hint = f"It is at step {found.step}. Its checkpoints: {names}; policies that are kept: {kept}."
    return what, hint


def _called(wanted: str) -> str:
    if wanted.isdecimal():
        return f"step {wanted}"
    is_version = wanted[:1] == "v" and wanted[1:].isdecimal()
    return f"version {wanted[1:]}" if is_version else f"checkpoint {wanted}"
