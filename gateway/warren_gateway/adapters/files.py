"""From an upload to the files of an adapter: a sealed folder, as samplers and trainers read policies.

`ID/adapter_model.safetensors` and `ID/adapter_config.json`, then `ID/SHA256SUMS`, without which no reader takes
the folder for one. Every name in it is of our own making. Everything here blocks.
"""

import hashlib
from dataclasses import dataclass

from warren_gateway.adapters.problems import WrongAdapter
from warren_gateway.datasets.assembling import write_whole
from warren_gateway.datasets.folder import Folder
from warren_schemas.adapters.config import CONFIG_FILE, AdapterConfig, BadAdapter, config_text
from warren_schemas.adapters.weights import WEIGHTS_FILE, check_weights
from warren_schemas.http import CreateAdapter

_SEAL = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class Assembled:
    digest: str
    targets: tuple[str, ...]
    size_bytes: int


def assemble(
    uploads: Folder,
    files: Folder,
    owner: str,
    adapter: str,
    wanted: CreateAdapter,
    base_model: str,
    config: AdapterConfig,
) -> Assembled:
    """Write the folder. Raises `WrongAdapter`, `FilesUnavailable`, `FullFolder`."""
    with files.writing(f"{adapter}/{WEIGHTS_FILE}") as written:
        write_whole(
            uploads, owner, wanted.sha256, wanted.size_bytes, written, WEIGHTS_FILE, WrongAdapter
        )
    with files.reading(f"{adapter}/{WEIGHTS_FILE}") as file:
        try:
            targets = check_weights(file, wanted.size_bytes, config)
        except BadAdapter as error:
            raise WrongAdapter(str(error)) from error
    text = config_text(config, targets, base_model)
    files.write(f"{adapter}/{CONFIG_FILE}", text)
    sums = {CONFIG_FILE: hashlib.sha256(text).hexdigest(), WEIGHTS_FILE: wanted.sha256}
    seal = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    files.write(f"{adapter}/{_SEAL}", seal)
    return Assembled(hashlib.sha256(seal).hexdigest(), targets, wanted.size_bytes + len(text))
