"""An adapter on this machine: a folder as PEFT writes it. All calls block.

Invariant: what is found wrong with it is told before anything is uploaded.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from warren.errors import ConfigurationError
from warren_schemas.adapters.config import CONFIG_FILE, BadAdapter, parsed_config, read_config
from warren_schemas.adapters.weights import WEIGHTS_FILE, check_weights


class AdapterFiles(NamedTuple):
    weights: Path
    sha256: str
    size_bytes: int
    config: dict[str, JsonValue]
    base_model: str | None
    """As the folder says."""


def read_adapter(folder: Path) -> AdapterFiles:
    """Raises `ConfigurationError`."""
    try:
        return _read(folder)
    except BadAdapter as error:
        raise ConfigurationError(f"{folder} can't be uploaded", details=[str(error)]) from error
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{folder} is no adapter as PEFT saves it: {Path(error.filename).name} is missing",
            hint=f"It takes {CONFIG_FILE} and {WEIGHTS_FILE}; pickled weights (adapter_model.bin) are not taken.",
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{folder} can't be read: {error.strerror or error}") from error


def _read(folder: Path) -> AdapterFiles:
    fields = parsed_config((folder / CONFIG_FILE).read_bytes())
    config = read_config(fields)
    weights = folder / WEIGHTS_FILE
    size_bytes = weights.stat().st_size
    with weights.open("rb") as file:
        check_weights(file, size_bytes, config)
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return AdapterFiles(weights, sha256, size_bytes, fields, config.base_model)
