"""From an upload to the files of an adapter: a sealed folder, as samplers and trainers read policies.

`ID/adapter_model.safetensors` and `ID/adapter_config.json`, then `ID/SHA256SUMS`, without which no reader takes
the folder for one. Every name in it is of our own making. Everything here blocks.
"""

import hashlib
from dataclasses import dataclass

from warren_gateway.adapters.problems import WrongAdapter
from warren_gateway.datasets.assembling import parts_of
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
    config: AdapterConfig,
) -> Assembled:
    """Write the folder. Raises `WrongAdapter`, `FilesUnavailable`, `FullFolder`."""
    _write_weights(uploads, files, owner, adapter, wanted)
    with files.reading(f"{adapter}/{WEIGHTS_FILE}") as file:
        try:
            targets = check_weights(file, wanted.size_bytes, config)
        except BadAdapter as error:
            raise WrongAdapter(str(error)) from error
    text = config_text(config, targets, wanted.base_model)
    files.write(f"{adapter}/{CONFIG_FILE}", text)
    sums = {CONFIG_FILE: hashlib.sha256(text).hexdigest(), WEIGHTS_FILE: wanted.sha256}
    seal = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    files.write(f"{adapter}/{_SEAL}", seal)
    return Assembled(hashlib.sha256(seal).hexdigest(), targets, wanted.size_bytes + len(text))


def _write_weights(
    uploads: Folder, files: Folder, owner: str, adapter: str, wanted: CreateAdapter
) -> None:
    digest, n_bytes = hashlib.sha256(), 0
    with files.writing(f"{adapter}/{WEIGHTS_FILE}") as written:
        for chunk in parts_of(uploads, owner, wanted.sha256):
            digest.update(chunk)
            n_bytes += len(chunk)
            written.write(chunk)
    if (n_bytes, digest.hexdigest()) != (wanted.size_bytes, wanted.sha256):
        raise WrongAdapter(
            f"{WEIGHTS_FILE} has {n_bytes} bytes with the SHA-256 {digest.hexdigest()}, and should have"
            f" {wanted.size_bytes} with {wanted.sha256}; upload it again"
        )
