"""Where vLLM's adapters lie as files, and how they get there.

In the host's memory if all that may be kept fits there with as much to spare, else in the folder for
temporary files: Docker gives a container 64 MB of `/dev/shm`.
"""

import json
import shutil
import tempfile
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import (
    save_file,  # pyright: ignore[reportUnknownVariableType]
)

from warren_gpu_worker.memory_folder import default_parent
from warren_gpu_worker.sampler.engines.port import PolicyUnusable
from warren_gpu_worker.weights import CONFIG_FILE, WEIGHTS_FILE, PolicyFiles


def parent_with_space(memory_bytes: int) -> Path:
    """A folder to keep so many bytes of adapters in."""
    memory = default_parent()
    if shutil.disk_usage(memory).free // 2 >= memory_bytes:
        return memory
    return Path(tempfile.gettempdir())


def write_adapter(files: PolicyFiles, folder: Path) -> None:
    """Make the folder. Raises `PolicyUnusable`, and then there is none: others need the space."""
    try:
        folder.mkdir()
        save_file(files.tensors, folder / WEIGHTS_FILE["lora"])
        (folder / CONFIG_FILE["lora"]).write_text(json.dumps(files.adapter_config))
    except (OSError, SafetensorError) as error:  # a full disk is either
        shutil.rmtree(folder, ignore_errors=True)
        raise PolicyUnusable(f"no space for the adapter in {folder.parent}: {error}") from error
