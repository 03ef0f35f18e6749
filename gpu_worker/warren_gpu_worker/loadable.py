"""What a GPU worker may load in the place of its own (`--may-load`), and what of that it can't.

A folder is the one that its path leads to when the worker starts, and a pattern of folders (`/models/*`) stands for those
that are there then, but for names that no queue can have and second ones of a name; any other one for the names of
base models that are built in, on the Hugging Face hub, or were uploaded by users (`warren/uploaded-*`).

Invariants: what a pattern lets a run name is never taken for a folder of this machine; what was refused is not tried again,
unless `MOST_REFUSED` others were since.
"""

from collections.abc import Collection
from pathlib import Path

from warren_gpu_worker.base_models import named_choices, resolve_base_models, resolve_name
from warren_gpu_worker.base_models.registry import Check, Tell
from warren_gpu_worker.base_models.uploaded import UploadedModels
from warren_gpu_worker.settings import GpuWorkerSettings, warren_home
from warren_schemas.base_models.names import is_uploaded
from warren_schemas.control import CannotLoad
from warren_schemas.text.patterns import is_pattern, names_one

GIB = 1024**3
MOST_REFUSED = 64
"""Names that are told of; a pattern lets runs name any number of them."""


class Loadable:
    def __init__(self, settings: GpuWorkerSettings) -> None:
        """What the worker was started with is what it may load later, if it may load anything."""
        found = named_choices(settings.may_load)
        self._patterns = {name for name in found if is_pattern(name)}
        self._choices = {n: c for n, c in found.items() if n not in self._patterns}
        self._ours = settings.base_models if found else {}
        self._choices |= self._ours
        self._reasons: dict[str, str] = {}
        cache, most_bytes = warren_home() / "cache" / "base-models", settings.model_cache_gib * GIB
        self._uploaded = UploadedModels(settings.models_url, cache, int(most_bytes))

    def names(self, but: Collection[str]) -> tuple[str, ...]:
        """Names and patterns of names, without these and what was refused."""
        return tuple(sorted({*self._choices, *self._patterns} - {*but, *self._reasons}))

    def has(self, base_model: str) -> bool:
        return base_model not in self._reasons and names_one(self.names(()), base_model)

    @property
    def refused(self) -> tuple[CannotLoad, ...]:
        return tuple(CannotLoad(base_model=b, reason=why) for b, why in self._reasons.items())

    def refuse(self, base_model: str, reason: str) -> None:
        self._reasons[base_model] = reason
        if len(self._reasons) > MOST_REFUSED:
            del self._reasons[next(iter(self._reasons))]

    def resolve(
        self, base_model: str, models_folder: Path, tell: Tell, check: Check
    ) -> dict[str, str]:
        """Its name and folder, of the worker's own as it was started; downloads what is missing, and blocks. Raises
        `UnknownBaseModel`, `CantFetch`, and what the hub's libraries raise."""
        if is_uploaded(base_model):
            tell(f"fetching {base_model} from the gateway's store")
            return {base_model: self._uploaded.fetch(base_model)}
        if (folder := self._ours.get(base_model)) is not None:
            return {base_model: folder}
        if (choice := self._choices.get(base_model)) is None:
            return {base_model: resolve_name(base_model, models_folder, tell, check)}
        found = resolve_base_models([choice], models_folder, tell=tell, check=check)
        (folder,) = found.values()
        return {base_model: folder}
