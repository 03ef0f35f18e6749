"""From uploads to the files of a base model: a sealed folder that GPU workers fetch.

`ID/config.json`, the weights and the tokenizer's files, then `ID/SHA256SUMS`, without which nobody takes the folder for
one. Every name in it is one of a fixed list. Everything here blocks.
"""

from dataclasses import dataclass

from warren_gateway.base_models.problems import WrongBaseModel
from warren_gateway.datasets.assembling import write_whole
from warren_gateway.datasets.folder import Folder
from warren_schemas.base_models.config import BaseModelConfig, read_config, read_json
from warren_schemas.base_models.files import (
    CONFIG_FILE,
    INDEX_FILE,
    READ,
    TEXTS,
    BadBaseModel,
    check_names,
    is_weights,
)
from warren_schemas.base_models.names import SEAL, seal_of
from warren_schemas.base_models.weights import Weights
from warren_schemas.http import BaseModelFile, CreateBaseModel


@dataclass(frozen=True, slots=True)
class Assembled:
    architecture: str
    n_parameters: int


def check_listed(wanted: CreateBaseModel) -> None:
    """What can be told before a file is read. Raises `WrongBaseModel`."""
    names = [file.name for file in wanted.files]
    if len(set(names)) < len(names):
        raise WrongBaseModel("two files have the same name")
    if len({file.sha256 for file in wanted.files}) < len(names):
        raise WrongBaseModel("two files have the same content; leave one out")
    try:
        check_names(names)
    except BadBaseModel as error:
        raise WrongBaseModel(str(error)) from error
    for file in wanted.files:
        most = TEXTS.get(file.name)
        if most is not None and file.size_bytes > most:
            raise WrongBaseModel(f"{file.name} has {file.size_bytes} bytes, and may have {most}")


def digest_seal(wanted: CreateBaseModel) -> bytes:
    """The seal that the folder will have."""
    return seal_of({file.name: file.sha256 for file in wanted.files})


def assemble(
    uploads: Folder, files: Folder, owner: str, version: str, wanted: CreateBaseModel
) -> Assembled:
    """Write the folder. Raises `WrongBaseModel`, `FilesUnavailable`, `FullFolder`."""
    for file in wanted.files:
        with files.writing(f"{version}/{file.name}") as written:
            write_whole(
                uploads, owner, file.sha256, file.size_bytes, written, file.name, WrongBaseModel
            )
    try:
        made = _checked(files, version, wanted)
    except BadBaseModel as error:
        raise WrongBaseModel(str(error)) from error
    files.write(f"{version}/{SEAL}", digest_seal(wanted))
    return made


def _checked(files: Folder, version: str, wanted: CreateBaseModel) -> Assembled:
    """Raises `BadBaseModel`."""
    by_name = {file.name: file for file in wanted.files}
    config = read_config(_text(files, version, CONFIG_FILE))
    for name in READ:
        if name in by_name:
            read_json(name, _text(files, version, name))
    weights = _weights(files, version, wanted.files, config)
    if INDEX_FILE in by_name:
        weights.check_index(_text(files, version, INDEX_FILE))
    return Assembled(config.architecture, weights.n_parameters)


def _weights(
    files: Folder, version: str, listed: tuple[BaseModelFile, ...], config: BaseModelConfig
) -> Weights:
    weights = Weights(config)
    for file in listed:
        if is_weights(file.name):
            with files.reading(f"{version}/{file.name}") as opened:
                weights.add(file.name, opened, file.size_bytes)
    weights.check_whole()
    return weights


def _text(files: Folder, version: str, name: str) -> bytes:
    """Its size was checked."""
    with files.reading(f"{version}/{name}") as opened:
        pieces = list(iter(lambda: opened.read(1024 * 1024), b""))
    return b"".join(pieces)
