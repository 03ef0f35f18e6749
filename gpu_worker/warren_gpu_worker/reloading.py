"""Another base model in the place of what an idle worker holds, once a gateway says so (`--may-load`).

Invariants
- Only a worker that is idle obeys: one that holds no model, keeps room for none, and samples no turn. An order that
  comes twice, late, or for what it may not load, changes nothing; the gateway sees that and decides anew.
- From the order on it takes no jobs. The roles end as they do when a worker stops and begin again with other ids: so to
  everybody else a worker has left and another one has come.
- A base model that can't be loaded, or that the worker's memory is too small for, is not tried again by this process,
  which goes back to what it was started with, whatever its size; its heartbeats say why.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from warren_gpu_worker.base_models.hub_size import HubSize, free_cache_bytes, hub_size
from warren_gpu_worker.base_models.uploaded import NoRoom
from warren_gpu_worker.fitting import DeviceMemory, no_room, too_large, too_many
from warren_gpu_worker.loadable import Loadable
from warren_gpu_worker.settings import GpuWorkerSettings, warren_home
from warren_schemas.control import CannotLoad

LOAD_S = 1800.0
"""As long as a child has to load a large model from a slow disk."""
MAX_DEATHS = 3
"""Of the trainer's child while it loads: what kills it so often (too little memory, say) will do so again."""

_NOT_FOUND = "it can't be had; the worker's log says why"
_NOT_LOADED = "loading it failed; the worker's log says why"

log = logging.getLogger(__name__)


def _nothing() -> None:
    pass


class _CantLoad(Exception):
    def __init__(self, reason: str, details: str) -> None:
        """`reason` is for everybody, `details` for the worker's log."""
        super().__init__(reason)
        self.reason, self.details = reason, details


class Reloading:
    def __init__(
        self,
        settings: GpuWorkerSettings,
        ask_hub: Callable[[str], HubSize | None] = hub_size,
    ) -> None:
        self.settings = settings
        """What the roles are played with."""
        self.told: str | None = None
        """The base model that was ordered, until the roles begin anew."""
        self.n_turns: Callable[[], int] = int
        """How many the sampler has in hand."""
        self.on_change: Callable[[], None] = _nothing
        """Called on the event loop when `told` is taken back; must not block."""
        self._first = self._next = settings
        self._loadable = Loadable(settings)
        self._ask_hub = ask_hub
        self._memory: DeviceMemory | None = None
        self._due = asyncio.Event()
        self._is_ready = False
        self._n_deaths = 0
        self._loading_ended = asyncio.Event()

    def play(self) -> GpuWorkerSettings:
        """The roles begin, with these settings."""
        self.settings, self.told = self._next, None
        self.n_turns, self.on_change = int, _nothing
        self._is_ready, self._n_deaths = False, 0
        self._loading_ended.clear()
        return self.settings

    @property
    def may_load(self) -> tuple[str, ...]:
        return self._loadable.names(but=self.settings.base_models)

    @property
    def cannot_load(self) -> tuple[CannotLoad, ...]:
        return self._loadable.refused

    def begin(self, base_model: str) -> bool:
        """A trainer that has nothing was told to load it; False where it is not to be."""
        is_busy = self.told is not None or not self._is_ready or self.n_turns() > 0
        is_ours = base_model in self.settings.base_models
        if is_busy or is_ours or not self._loadable.has(base_model):
            return False
        self.told = base_model
        self._due.set()
        return True

    def note_ready(self, memory: DeviceMemory | None = None) -> None:
        """The trainer has loaded what it was to, and says what its device has."""
        self._is_ready, self._memory = True, memory
        self._loading_ended.set()

    def note_death(self) -> None:
        """The trainer's child died."""
        self._n_deaths += 1
        if self._n_deaths >= MAX_DEATHS and not self._is_as_started:
            self._loading_ended.set()

    async def until_due(self) -> None:
        """Return when the roles are to be played anew, with other `settings`."""
        if not await self._is_loaded():
            self.go_back()
            return
        while True:
            await self._due.wait()
            self._due.clear()
            if self.told is not None and await self._prepare(self.told):
                return

    async def _is_loaded(self) -> bool:
        """Once that is known of what is loaded in the place of another; the first is waited for."""
        try:
            async with asyncio.timeout(None if self._is_as_started else LOAD_S):
                await self._loading_ended.wait()
        except TimeoutError:
            log.error("the trainer has not loaded it within %g s", LOAD_S)
        return self._is_ready

    def go_back(self) -> bool:
        """To the base models that the worker was started with; False where it has those."""
        if self._is_as_started:
            return False
        for base_model in self.settings.base_models:
            log.error(
                "%s can't be loaded; going back to what this worker was started with", base_model
            )
            self._loadable.refuse(base_model, _NOT_LOADED)
        self._next = self._first
        return True

    @property
    def _is_as_started(self) -> bool:
        return self._is_first(self.settings.base_models)

    def _is_first(self, base_models: Mapping[str, str]) -> bool:
        return base_models.items() <= self._first.base_models.items()

    async def _prepare(self, base_model: str) -> bool:
        """Have its files here, and see that it fits, while the sampler goes on."""
        try:
            found = await asyncio.to_thread(self._fetch, base_model)
        except _CantLoad as error:
            log.error("%s can't be loaded: %s", base_model, error.details)
            self._loadable.refuse(base_model, error.reason)
            self.told = None
            self.on_change()
            return False
        log.info("loading %s in the place of %s", base_model, ", ".join(self.settings.base_models))
        self._next = self.settings.model_copy(update={"base_models": found})
        return True

    def _fetch(self, base_model: str) -> dict[str, str]:
        """Its name and folder. Raises `_CantLoad`."""
        try:
            found = self._loadable.resolve(
                base_model, warren_home() / "models", log.info, self._check_download
            )
            reason = self._obstacle(found)
        except _CantLoad:
            raise
        except NoRoom as error:
            raise _CantLoad(str(error), str(error)) from error
        except Exception as error:  # of the hub's libraries, or of files that are not what they say
            raise _CantLoad(_NOT_FOUND, f"{type(error).__name__}: {error}") from error
        if reason is not None:
            raise _CantLoad(reason, reason)
        return found

    def _check_download(self, name: str) -> None:
        """Nothing is downloaded that finds no room here, as far as the hub tells. Raises `_CantLoad`."""
        if (size := self._ask_hub(name)) is None:
            return
        reason = None if self._memory is None else too_many(size.n_parameters, self._memory)
        if (reason := reason or no_room(size.n_bytes, free_cache_bytes(name))) is not None:
            raise _CantLoad(reason, reason)

    def _obstacle(self, base_models: Mapping[str, str]) -> str | None:
        if self._is_first(base_models):
            return None
        (folder,) = base_models.values()
        return too_large(folder, self._memory)
