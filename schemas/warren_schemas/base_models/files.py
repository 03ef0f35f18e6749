"""Which files a base model may have, told by their names before any of them is read.

Invariant: nothing is taken that anybody would have to run or unpickle.
"""

import re
from collections.abc import Collection

CONFIG_FILE = "config.json"
INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
MAX_FILES = 256
MAX_MODEL_BYTES = 1024**4
_MIB = 1024**2

TEXTS = {
    CONFIG_FILE: _MIB,
    INDEX_FILE: 8 * _MIB,
    "generation_config.json": _MIB,
    "tokenizer.json": 128 * _MIB,
    "tokenizer_config.json": 4 * _MIB,
    "special_tokens_map.json": _MIB,
    "added_tokens.json": 16 * _MIB,
    "vocab.json": 64 * _MIB,
    "merges.txt": 64 * _MIB,
    "chat_template.jinja": _MIB,
}
"""The other files beside the weights, and the most bytes of each."""
READ = (
    CONFIG_FILE,
    INDEX_FILE,
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
"""Those that libraries take settings from: they are read, and must name no code."""
_SHARD = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")
_PICKLED = re.compile(r".*\.(bin|pt|pth|ckpt|pkl|pickle|joblib|npy|npz)", re.IGNORECASE)
_NEEDED = (CONFIG_FILE, "tokenizer.json")


class BadBaseModel(ValueError):
    """This is no base model that can be used here; says what is wrong and where."""


def check_names(names: Collection[str]) -> None:
    """Raises `BadBaseModel`."""
    for name in sorted(names):
        _check_name(name)
    for name in _NEEDED:
        if name not in names:
            raise BadBaseModel(f"{name} is missing")
    _check_weight_files({name for name in names if is_weights(name)}, names)


def is_weights(name: str) -> bool:
    return name == SINGLE_FILE or _SHARD.fullmatch(name) is not None


def _check_name(name: str) -> None:
    if name in TEXTS or is_weights(name):
        return
    if name.endswith(".py"):
        raise BadBaseModel(f"{name}: code that comes with a model is never run here")
    if _PICKLED.fullmatch(name):
        raise BadBaseModel(
            f"{name}: pickled weights are not taken; `save_pretrained` writes {SINGLE_FILE}"
        )
    raise BadBaseModel(
        f"{name[:200]}: a base model has no such file here; it has {SINGLE_FILE} (or"
        f" model-00001-of-00002.safetensors and so on) and some of {', '.join(TEXTS)}"
    )


def _check_weight_files(weights: Collection[str], names: Collection[str]) -> None:
    if not weights:
        raise BadBaseModel(f"{SINGLE_FILE} is missing")
    if weights == {SINGLE_FILE}:
        if INDEX_FILE in names:
            raise BadBaseModel(f"{INDEX_FILE} is for weights in several files, and there is one")
        return
    if SINGLE_FILE in weights:
        raise BadBaseModel(f"{SINGLE_FILE} is there, and so are weights in several files")
    if INDEX_FILE not in names:
        raise BadBaseModel(f"{INDEX_FILE} is missing, which says where each tensor lies")
    n_files = len(weights)
    for number in range(1, n_files + 1):
        if (name := f"model-{number:05}-of-{n_files:05}.safetensors") not in weights:
            raise BadBaseModel(f"{name} is missing")
