"""A base model on this machine: a folder as transformers' `save_pretrained` writes it. All calls block.

Invariant: what is found wrong with it is told before anything is uploaded. The sums that a download has written beside
the files are not part of it.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from warren.errors import ConfigurationError
from warren_schemas.base_models.config import read_config, read_json
from warren_schemas.base_models.files import (
    CONFIG_FILE,
    INDEX_FILE,
    READ,
    TEXTS,
    BadBaseModel,
    check_names,
    is_weights,
)
from warren_schemas.base_models.weights import Weights
from warren_schemas.files import SEAL
from warren_schemas.http import BaseModelFile


class LocalFile(NamedTuple):
    path: Path
    file: BaseModelFile


def read_base_model(folder: Path) -> tuple[LocalFile, ...]:
    """Its files with their SHA-256, the small ones first. Raises `ConfigurationError`."""
    try:
        return _read(folder)
    except BadBaseModel as error:
        raise ConfigurationError(f"{folder} can't be uploaded", details=[str(error)]) from error
    except OSError as error:
        raise ConfigurationError(f"{folder} can't be read: {error.strerror or error}") from error


def _read(folder: Path) -> tuple[LocalFile, ...]:
    paths = {path.name: path for path in folder.iterdir() if path.name != SEAL}
    for name, path in sorted(paths.items()):
        _require_plain(name, path)
    check_names(paths)
    for name in TEXTS:
        if name in paths:
            _check_text(paths[name])
    config = read_config(paths[CONFIG_FILE].read_bytes())
    weights = Weights(config)
    for name in sorted(filter(is_weights, paths)):
        with paths[name].open("rb") as file:
            weights.add(name, file, paths[name].stat().st_size)
    weights.check_whole()
    if INDEX_FILE in paths:
        weights.check_index(paths[INDEX_FILE].read_bytes())
    found = [LocalFile(path, _digested(path)) for path in paths.values()]
    return tuple(sorted(found, key=lambda one: (one.file.size_bytes, one.file.name)))


def _require_plain(name: str, path: Path) -> None:
    """What lies in the folder itself: a link could lead to any file of this machine."""
    if path.is_symlink():
        raise BadBaseModel(f"{name} is a link; copy the folder with its files: cp -rL")
    if not path.is_file():
        raise BadBaseModel(f"{name} is no file; a base model has none in folders")


def _check_text(path: Path) -> None:
    size_bytes, most = path.stat().st_size, TEXTS[path.name]
    if size_bytes > most:
        raise BadBaseModel(f"{path.name} has {size_bytes} bytes, and may have {most}")
    if path.name in READ:
        read_json(path.name, path.read_bytes())


def _digested(path: Path) -> BaseModelFile:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    size_bytes = path.stat().st_size
    if size_bytes == 0:
        raise BadBaseModel(f"{path.name} is empty")
    return BaseModelFile(name=path.name, sha256=sha256, size_bytes=size_bytes)
