# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""The sampler's child process: `python -m warren_gpu_worker.sampler.child.main SETTINGS BASE_MODEL`.

One thread decodes; another reads the socket and hands frames over, so that orders are taken between
two steps and never hold one up; a few more fetch policies. All meet in one queue of events.

Invariants: whatever is finished in a step leaves in one frame; while there is work, something is
said at least every `pulse_s`, also asleep; when the supervisor closes the conversation the process
ends at once.
"""

import contextlib
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import torch
import transformers
from safetensors import SafetensorError

from warren_broker.worker.channel import Channel
from warren_gpu_worker.base_models.loading import configured_ends, load_tokenizer
from warren_gpu_worker.base_models.vision_inputs import NoVision
from warren_gpu_worker.device_errors import fault_of, is_out_of_memory
from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurns, Answer
from warren_gpu_worker.sampler.child.image_cache import ImageCache, Seen, look
from warren_gpu_worker.sampler.child.machines import gather_machines, why_not_started
from warren_gpu_worker.sampler.child.policy_loader import PolicyLoader
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.child.turns import Turns
from warren_gpu_worker.sampler.engines.choice import OpenEngine, open_engine
from warren_gpu_worker.sampler.engines.port import Refusal, Sleeper, Stager
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import MachineLost
from warren_gpu_worker.sampler.messages import (
    DeviceFailed,
    Orders,
    PolicySource,
    Ready,
    Report,
    TurnRequest,
    pack,
    unpack_orders,
)
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.weights import PolicyFiles, fetch_policy, pinned
from warren_schemas.episode import FailureKind

PULSE_S = 1.0
_N_FETCHES = 8
_FETCH_DELAYS_S = (0.0, 0.2, 1.0)
"""Waits before each try: a store may show a new folder late."""
_START_ERRORS = (MachineLost, OSError, ValueError, RuntimeError, ImportError, SafetensorError)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Fetched:
    source: PolicySource
    outcome: PolicyFiles | str
    """The files, or why there are none."""


@dataclass(frozen=True, slots=True)
class _HungUp:
    """The supervisor wants nothing more."""


@dataclass(frozen=True, slots=True)
class _Looked:
    turn: TurnRequest
    outcome: Seen | Refusal


_Stage = Callable[[PolicyFiles], PolicyFiles]
_Event = bytes | _Fetched | _Looked | _HungUp


class SamplerChild:
    """Raises `TemplateNotExtendable`, and what `open_engine` raises."""

    def __init__(
        self,
        channel: Channel,
        settings: GpuWorkerSettings,
        base_model: str,
        *,
        pulse_s: float = PULSE_S,
        open_engine: OpenEngine = open_engine,
    ) -> None:
        self._channel = channel
        self._pulse_s = pulse_s
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._fetches = ThreadPoolExecutor(_N_FETCHES, thread_name_prefix="fetch")
        self._reported_s = 0.0
        folder = settings.base_models[base_model]
        ends = configured_ends(folder)
        renderer = Renderer(load_tokenizer(folder), ends)
        end_ids = frozenset({*ends, renderer.end_of_turn})
        vision = look(folder, renderer)
        self._image_cache = ImageCache(vision)
        if isinstance(vision, NoVision):
            vision = None
        self._engine = open_engine(folder, settings, Endings(end_ids, renderer.text), vision)
        accepted = AcceptedTurns()
        self._policy_loader = PolicyLoader(
            self._engine, accepted, self._start_fetch, on_new_weights=settings.on_new_weights
        )
        self._turns = Turns(
            self._engine,
            accepted,
            self._policy_loader,
            renderer,
            end_ids,
            image_token=vision.image_token if vision else None,
        )

    def run(self) -> None:
        """Serve until the supervisor hangs up, the memory is too small for what is to be computed, or the device is
        lost."""
        try:
            self._work()
        except Exception as error:
            if is_out_of_memory(error):
                word = self._turns.too_large(error)
            elif (fault := fault_of(error)) is not None:
                word = DeviceFailed(fault)
            else:
                raise
            log.exception("this process can't go on")
            self._channel.send(pack(word))

    def _work(self) -> None:
        threading.Thread(target=self._read, name="read", daemon=True).start()
        self._channel.send(pack(Ready(self._engine.context_length, self._engine.caches_prefixes)))
        while True:
            for event in self._take_events():
                if isinstance(event, _HungUp):
                    return
                self._handle(event)
            self._report(self._turns.step())

    def _read(self) -> None:
        """The reading thread: frames into events, until the conversation ends."""
        while (frame := self._channel.receive()) is not None:
            self._events.put(frame)
        self._events.put(_HungUp())

    def _take_events(self) -> Iterator[_Event]:
        """What has come; wait for something when there is nothing else to do."""
        try:
            if not self._turns.has_work:
                yield self._events.get(timeout=self._pulse_s if self._turns.n_open else None)
            while True:
                yield self._events.get_nowait()
        except Empty:
            return

    def _handle(self, event: bytes | _Fetched | _Looked) -> None:
        if isinstance(event, bytes):
            self._obey(unpack_orders(event))
        elif isinstance(event, _Looked):
            self._turns.seen(event.turn, event.outcome)
        elif isinstance(event.outcome, str):
            log.warning("policy %s: %s", event.source.key.model, event.outcome)
            self._policy_loader.fetch_failed(event.source, event.outcome)
        else:
            self._policy_loader.fetched(event.source, event.outcome)

    def _obey(self, orders: Orders) -> None:
        self._turns.follow(orders)
        for turn in orders.requests:
            if turn.images:
                self._fetches.submit(_look, self._image_cache, turn, self._events.put)
        if orders.sleep and isinstance(self._engine, Sleeper):
            self._sleep(self._engine)

    def _sleep(self, engine: Sleeper) -> None:
        """Free the memory until told otherwise; what comes meanwhile is taken up afterwards."""
        engine.sleep()
        self._say([], is_asleep=True)
        meanwhile = self._events_until_waking()
        if meanwhile is None:
            return self._events.put(_HungUp())
        engine.wake()
        self._say([])
        for event in meanwhile:
            self._handle(event)

    def _events_until_waking(self) -> "list[bytes | _Fetched | _Looked] | None":
        """In their order, the one that wakes included; None when the supervisor hung up."""
        found: list[bytes | _Fetched | _Looked] = []
        while not (found and _wakes(found[-1])):
            self._report([], is_asleep=True)
            with contextlib.suppress(Empty):
                event = self._events.get(timeout=self._pulse_s)
                if isinstance(event, _HungUp):
                    return None
                found.append(event)
        return found

    def _report(self, answers: list[Answer], *, is_asleep: bool = False) -> None:
        if answers or time.monotonic() - self._reported_s >= self._pulse_s:
            self._say(answers, is_asleep=is_asleep)

    def _say(self, answers: list[Answer], *, is_asleep: bool = False) -> None:
        self._reported_s = time.monotonic()
        self._channel.send(pack(Report(answers, self._engine.statistics(), is_asleep)))

    def _start_fetch(self, source: PolicySource) -> None:
        stage = self._engine.stage if isinstance(self._engine, Stager) else _as_they_are
        self._fetches.submit(_fetch, source, stage, self._events.put)


def _wakes(event: _Event) -> bool:
    return isinstance(event, bytes) and unpack_orders(event).sleep is False


def _look(image_cache: ImageCache, turn: TurnRequest, put: Callable[[_Event], None]) -> None:
    """In a fetching thread: decoding a large image takes as long as many steps."""
    try:
        outcome = image_cache.see(turn)
    except Exception as error:  # whatever a decoder raises at a file that was made to break it
        log.exception("the images of a turn can't be seen")
        reason = f"the chat's images can't be seen: {type(error).__name__}: {error}"
        outcome = Refusal(turn.id, FailureKind.SAMPLER_ERROR, reason)
    put(_Looked(turn, outcome))


def _as_they_are(files: PolicyFiles) -> PolicyFiles:
    return files


def _fetch(source: PolicySource, stage: _Stage, put: Callable[[_Event], None]) -> None:
    """In a fetching thread: the files, or the reason why not, as an event."""
    put(_Fetched(source, _try_to_fetch(source, stage)))


def _try_to_fetch(source: PolicySource, stage: _Stage) -> PolicyFiles | str:
    if source.url is None:
        return "it has no address"
    reason = ""
    for delay_s in _FETCH_DELAYS_S:
        time.sleep(delay_s)
        try:
            files = stage(fetch_policy(source.url))
            return pinned(files) if torch.cuda.is_initialized() else files
        except Exception as error:  # any store's own errors: each becomes a refusal
            log.debug("fetching %s", source.url, exc_info=True)
            reason = str(error) or type(error).__name__
    return reason


def main(open_engine: OpenEngine = open_engine) -> None:
    """Leaves without waiting for threads: a fetch may hang, and nothing here needs tidying up."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    transformers.utils.logging.disable_progress_bar()
    channel = Channel.inherited()
    settings = GpuWorkerSettings.model_validate_json(channel.arguments[0])
    torch.set_num_threads(settings.n_threads)
    with contextlib.suppress(BrokenPipeError):  # the supervisor hung up while we spoke
        _serve(channel, settings, open_engine)
    os._exit(0)


def _serve(channel: Channel, settings: GpuWorkerSettings, open_engine: OpenEngine) -> None:
    gathered = None
    try:
        if settings.sampler_machines > 1:
            gathered = gather_machines(channel, settings)
            settings, open_engine = gathered.settings, partial(open_engine, place=gathered.place)
        child = SamplerChild(channel, settings, channel.arguments[1], open_engine=open_engine)
    except _START_ERRORS as error:
        channel.send(pack(why_not_started(error, gathered)))
        os._exit(1)
    gc.freeze()  # what was loaded stays: nothing of it is garbage
    child.run()


if __name__ == "__main__":
    main()
