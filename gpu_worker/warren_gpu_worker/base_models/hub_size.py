"""How large a model on the Hugging Face hub is, asked before it is downloaded.

Invariant: None is what can't be known (no hub, no such model, no sizes told); whoever asks goes on as without asking.
"""

import logging
import shutil
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

ASK_S = 10.0
WANTED: tuple[str, ...] = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")
"""The files that are downloaded."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HubSize:
    n_parameters: int
    n_bytes: int
    """Of the files that are downloaded."""


def hub_size(name: str) -> HubSize | None:
    """Blocks, for `ASK_S` or a little more."""
    import httpx
    from huggingface_hub import model_info

    try:
        return size_told(model_info(name, files_metadata=True, timeout=ASK_S))
    except (OSError, ValueError, httpx.HTTPError) as error:  # the download says what is wrong
        log.info("the size of %s is not known before it is downloaded: %s", name, error)
        return None


def size_told(info: "ModelInfo") -> HubSize | None:
    if info.safetensors is None:
        return None
    files = [one for one in info.siblings or () if any(fnmatch(one.rfilename, w) for w in WANTED)]
    return HubSize(info.safetensors.total, sum(one.size or 0 for one in files))


def free_cache_bytes(name: str) -> int:
    """For this model, where the hub's files are kept: what is free, and what its files take there already, for a
    download goes on where it was."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(HF_HUB_CACHE).absolute()
    blobs = folder / repo_folder_name(repo_id=name, repo_type="model") / "blobs"
    taken = sum(file.stat().st_size for file in blobs.glob("*"))
    disk = next(one for one in (folder, *folder.parents) if one.is_dir())
    return shutil.disk_usage(disk).free + taken
