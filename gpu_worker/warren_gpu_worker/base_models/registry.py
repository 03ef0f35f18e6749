# pyright: reportUnknownVariableType=false
# (huggingface_hub leaves parts of its interface untyped)
"""Which base models a worker offers: what the user typed -> name and local folder."""

import logging
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from glob import glob
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from warren_gpu_worker.base_models.hub_size import WANTED
from warren_gpu_worker.base_models.tiny import FAMILY, ensure_tiny
from warren_schemas.base import QueuePart
from warren_schemas.base_models.names import UPLOADED, is_uploaded
from warren_schemas.text.patterns import is_pattern

_PATHS = ("/", ".", "~")
"""How a choice begins that is a folder for certain, also with a `=` in it."""
_NAMES = TypeAdapter[str](QueuePart)

log = logging.getLogger(__name__)


class UnknownBaseModel(ValueError):
    """No base model could be found under this name; says where was looked."""


Tell = Callable[[str], None]
"""Told what takes long, as it begins."""


Check = Callable[[str], None]
"""Given the name of what is about to be downloaded; may raise what keeps it from that."""


def _silent(what: str) -> None:
    del what


def resolve_base_models(
    choices: Iterable[str], models_folder: Path, *, tell: Tell = _silent, check: Check = _silent
) -> dict[str, str]:
    """Name -> folder for each choice. Downloads and builds what is missing; blocks.

    A choice is `name=folder`, a folder (offered under its last component), a built-in name
    (`warren/tiny`), or the name of a model on the Hugging Face hub.
    Raises `UnknownBaseModel` when there is nothing behind a choice.
    """
    offered: dict[str, str] = {}
    for choice in choices:
        name, folder = _resolve(choice, models_folder, tell, check)
        if offered.setdefault(name, folder) != folder:
            raise UnknownBaseModel(f"{name} is given twice: {offered[name]} and {folder}")
    return offered


def named_choices(choices: Iterable[str]) -> dict[str, str]:
    """The name that each choice is offered under -> the choice; nothing is looked up but which folders a pattern has."""
    named: dict[str, str] = {}
    for one in (one for choice in choices for one in _folders(choice)):
        name = _name(one)
        if named.setdefault(name, one) != one:
            log.warning("%s is left out, for %s is %s", one, name, named[name])
    return named


def _folders(choice: str) -> list[str]:
    """Those that a pattern of folders stands for, or the folder that a path leads to now; a name stands for itself."""
    if not choice.startswith(_PATHS):
        return [choice]
    path = Path(choice).expanduser()
    if not is_pattern(choice):
        return [str(path.resolve())]
    found = [Path(folder).resolve() for folder in sorted(glob(str(path)))]
    return [str(one) for one in found if (one / "config.json").is_file() and _has_valid_name(one)]


def _has_valid_name(folder: Path) -> bool:
    try:
        _NAMES.validate_python(folder.name)
    except ValidationError:
        log.warning("%s is left out: give it a name, as in --may-load NAME=FOLDER", folder)
        return False
    return True


def _name(choice: str) -> str:
    if choice.startswith(_PATHS):
        return Path(choice).expanduser().resolve().name
    return choice.partition("=")[0]


def _resolve(choice: str, models_folder: Path, tell: Tell, check: Check) -> tuple[str, str]:
    name, equals, folder = choice.partition("=")
    if equals and not choice.startswith(_PATHS):
        if not name:
            raise UnknownBaseModel(f"{choice}: the name before '=' is empty")
        return name, _checked(Path(folder))
    if choice in FAMILY:
        return choice, resolve_name(choice, models_folder, tell)
    path = Path(choice)
    if path.is_dir() or choice.startswith(_PATHS):
        return path.expanduser().resolve().name, _checked(path)
    return choice, _from_hub(choice, tell, check)


def resolve_name(name: str, models_folder: Path, tell: Tell, check: Check = _silent) -> str:
    """The folder of a base model that is built in or on the hub, never one that has this path here.

    Raises `UnknownBaseModel`.
    """
    if name in FAMILY:
        return str(ensure_tiny(name, models_folder, tell))
    return _from_hub(name, tell, check)


def _checked(path: Path) -> str:
    folder = path.expanduser().resolve()
    if not folder.is_dir():
        raise UnknownBaseModel(f"{folder} is no folder")
    if not (folder / "config.json").is_file():
        raise UnknownBaseModel(f"{folder} holds no model: there is no config.json in it")
    return str(folder)


def _from_hub(name: str, tell: Tell, check: Check) -> str:
    """The local copy of a model on the hub, downloaded if it is not there yet."""
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    if is_uploaded(name):
        raise UnknownBaseModel(
            f"{name} was uploaded to a gateway by a user: a worker that may loads it (--may-load '{UPLOADED}*') when a run"
            f" asks for it; elsewhere give its folder: {name}=/path/to/folder"
        )
    wanted = list(WANTED)
    try:
        return snapshot_download(name, allow_patterns=wanted, local_files_only=True)
    except (HFValidationError, LocalEntryNotFoundError, OSError):
        check(name)
        tell(f"downloading {name} from the Hugging Face hub")
    try:
        return snapshot_download(name, allow_patterns=wanted)
    except (HFValidationError, LocalEntryNotFoundError, OSError, httpx.HTTPError) as error:
        raise UnknownBaseModel(_nothing_found(name, error)) from error


def _nothing_found(name: str, error: Exception) -> str:
    """What was tried, why it failed, and what else may be given."""
    match = get_close_matches(name, FAMILY, n=1)
    guess = f" Did you mean {match[0]}?" if match else ""
    told = str(error).strip() or type(error).__name__
    reason = told.splitlines()[0].removeprefix("Got: ")
    return (
        f"{name} is no built-in base model ({', '.join(FAMILY)}) and no folder, and the Hugging"
        f" Face hub did not give it ({reason}).{guess} A folder with its files does as well:"
        f" --base-model {name}=/path/to/folder"
    )
