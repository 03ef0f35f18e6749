# pyright: reportUnknownVariableType=false
# (huggingface_hub leaves parts of its interface untyped)
"""Which base models a worker offers: what the user typed -> name and local folder."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

from warren_gpu_worker.base_models.tiny import EMBEDDING_STD, ensure_tiny


class UnknownBaseModel(ValueError):
    """No base model could be found under this name; says where was looked."""


Tell = Callable[[str], None]
"""Told what takes long, as it begins."""


def _silent(what: str) -> None:
    del what


def resolve_base_models(
    choices: Iterable[str], models_folder: Path, *, tell: Tell = _silent
) -> dict[str, str]:
    """Name -> folder for each choice. Downloads and builds what is missing; blocks.

    A choice is `name=folder`, a folder (offered under its last component), a built-in name
    (`warren/tiny`), or the name of a model on the Hugging Face hub.
    Raises `UnknownBaseModel` when there is nothing behind a choice.
    """
    offered: dict[str, str] = {}
    for choice in choices:
        name, folder = _resolve(choice, models_folder, tell)
        if offered.setdefault(name, folder) != folder:
            raise UnknownBaseModel(f"{name} is given twice: {offered[name]} and {folder}")
    return offered


def named_choices(choices: Iterable[str]) -> dict[str, str]:
    """The name that each choice is offered under -> the choice; nothing is looked up."""
    return {_name(choice): choice for choice in choices}


def _name(choice: str) -> str:
    name, equals, _ = choice.partition("=")
    if equals or not choice.startswith(("/", ".", "~")):
        return name
    return Path(choice).expanduser().resolve().name


def _resolve(choice: str, models_folder: Path, tell: Tell) -> tuple[str, str]:
    name, equals, folder = choice.partition("=")
    if equals:
        if not name:
            raise UnknownBaseModel(f"{choice}: the name before '=' is empty")
        return name, _checked(Path(folder))
    if choice in EMBEDDING_STD:
        return choice, str(ensure_tiny(choice, models_folder, tell))
    path = Path(choice)
    if path.is_dir() or choice.startswith(("/", ".", "~")):
        return path.expanduser().resolve().name, _checked(path)
    return choice, _from_hub(choice, tell)


def _checked(path: Path) -> str:
    folder = path.expanduser().resolve()
    if not folder.is_dir():
        raise UnknownBaseModel(f"{folder} is no folder")
    if not (folder / "config.json").is_file():
        raise UnknownBaseModel(f"{folder} holds no model: there is no config.json in it")
    return str(folder)


def _from_hub(name: str, tell: Tell) -> str:
    """The local copy of a model on the hub, downloaded if it is not there yet."""
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    wanted = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
    try:
        return snapshot_download(name, allow_patterns=wanted, local_files_only=True)
    except (HFValidationError, LocalEntryNotFoundError, OSError):
        tell(f"downloading {name} from the Hugging Face hub")
    try:
        return snapshot_download(name, allow_patterns=wanted)
    except (HFValidationError, LocalEntryNotFoundError, OSError, httpx.HTTPError) as error:
        raise UnknownBaseModel(_nothing_found(name, error)) from error


def _nothing_found(name: str, error: Exception) -> str:
    """What was tried, why it failed, and what else may be given."""
    match = get_close_matches(name, EMBEDDING_STD, n=1)
    guess = f" Did you mean {match[0]}?" if match else ""
    told = str(error).strip() or type(error).__name__
    reason = told.splitlines()[0].removeprefix("Got: ")
    return (
        f"{name} is no built-in base model ({', '.join(EMBEDDING_STD)}) and no folder, and the Hugging"
        f" Face hub did not give it ({reason}).{guess} A folder with its files does as well:"
        f" --base-model {name}=/path/to/folder"
    )
