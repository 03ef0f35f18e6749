"""Another base model in the place of what an idle worker holds, once a gateway says so (`--may-load`).

Invariants
- Only a worker that is idle obeys: one that holds no model, keeps room for none, and samples no turn. An order that
  comes twice, late, or for what it may not load, changes nothing; the gateway sees that and decides anew.
- From the order on it takes no jobs. The roles end as they do when a worker stops and begin again with other ids: so to
  everybody else a worker has left and another one has come.
- A base model that can't be loaded is not tried again by this process, which goes back to what it was started with.
"""

import asyncio
import logging
from collections.abc import Callable

from warren_gpu_worker.base_models import UnknownBaseModel, named_choices, resolve_base_models
from warren_gpu_worker.settings import GpuWorkerSettings, warren_home

LOAD_S = 1800.0
"""As long as a child has to load a large model from a slow disk."""
MAX_DEATHS = 3
"""Of the trainer's child while it loads: what kills it so often (too little memory, say) will do so again."""

log = logging.getLogger(__name__)


def _nothing() -> None:
    pass


class Reloading:
    def __init__(self, settings: GpuWorkerSettings) -> None:
        self.settings = settings
        """What the roles are played with."""
        self.told: str | None = None
        """The base model that was ordered, until the roles begin anew."""
        self.n_turns: Callable[[], int] = int
        """How many the sampler has in hand."""
        self.on_change: Callable[[], None] = _nothing
        """Called on the event loop when `told` is taken back; must not block."""
        self._first = self._next = settings
        ours = {name: f"{name}={folder}" for name, folder in settings.base_models.items()}
        self._choices = named_choices(settings.may_load) | ours if settings.may_load else {}
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
        return tuple(sorted(self._choices.keys() - self.settings.base_models.keys()))

    def begin(self, base_model: str) -> bool:
        """A trainer that has nothing was told to load it; False where it is not to be."""
        is_busy = self.told is not None or not self._is_ready or self.n_turns() > 0
        if is_busy or base_model not in self.may_load:
            return False
        self.told = base_model
        self._due.set()
        return True

    def note_ready(self) -> None:
        """The trainer has loaded what it was to."""
        self._is_ready = True
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
            self._choices.pop(base_model, None)
        self._next = self._first
        return True

    @property
    def _is_as_started(self) -> bool:
        return self.settings.base_models.items() <= self._first.base_models.items()

    async def _prepare(self, base_model: str) -> bool:
        """Have its files here, while the sampler goes on."""
        choice, folder = self._choices[base_model], warren_home() / "models"
        try:
            found = await asyncio.to_thread(resolve_base_models, [choice], folder, tell=log.info)
        except (UnknownBaseModel, OSError, ValueError) as error:
            log.error("%s can't be loaded: %s", base_model, error)
            self._choices.pop(base_model)
            self.told = None
            self.on_change()
            return False
        log.info("loading %s in the place of %s", base_model, ", ".join(self.settings.base_models))
        self._next = self.settings.model_copy(update={"base_models": found})
        return True
