"""A sampling child asleep: heard all the same, touching nothing, and gone when nobody can wake it."""

import socket
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager

import numpy as np
from tests.support.patience import PATIENCE_S

from warren_broker.worker.channel import Channel
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.child.main import SamplerChild
from warren_gpu_worker.sampler.engines.port import Engine, PolicyKey, Refusal, Request
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.sampler.messages import (
    Orders,
    PolicySource,
    Ready,
    Report,
    TurnRequest,
    pack,
    unpack_answer,
)
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.config import Sampling

PULSE_S = 0.05


class Sleepy(TransformersEngine):
    """An engine that must be left alone while it sleeps."""

    is_asleep = False

    def sleep(self) -> None:
        assert not self.is_asleep
        self.is_asleep = True

    def wake(self) -> None:
        assert self.is_asleep
        self.is_asleep = False

    def add_requests(self, requests: Sequence[Request]) -> list[Refusal]:
        assert not self.is_asleep
        return super().add_requests(requests)

    def step(self) -> list[Request | Refusal]:
        assert not self.is_asleep
        return super().step()


def open_sleepy(
    folder: str,
    settings: GpuWorkerSettings,
    endings: Endings,
    vision: VisionInputs | None = None,
    place: Place | None = None,
) -> Engine:
    return Sleepy(load_base(folder), endings=endings, limits=EngineLimits.of(settings), seed=0)


class Supervisor:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def order(self, orders: Orders) -> None:
        self._channel.send(pack(orders))

    def hear(self) -> Report | Ready | None:
        """What the child says next; None when it has left."""
        frame = self._channel.receive()
        said = None if frame is None else unpack_answer(frame)
        assert said is None or isinstance(said, Report | Ready)
        return said

    def until_asleep(self) -> None:
        self.order(Orders(sleep=True))
        while not (isinstance(said := self.hear(), Report) and said.is_asleep):
            assert said is not None


@contextmanager
def serving(folder: str) -> Generator[Supervisor]:
    """A child on a thread of this process, which has ended in the end."""
    settings = GpuWorkerSettings(base_models={"tiny": folder}, device="cpu", engine="transformers")
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with closing(Channel(ours)) as near, closing(Channel(theirs)) as far:
        child = SamplerChild(far, settings, "tiny", pulse_s=PULSE_S, open_engine=open_sleepy)
        thread = threading.Thread(target=child.run)
        thread.start()
        supervisor = Supervisor(near)
        assert isinstance(supervisor.hear(), Ready)
        yield supervisor
        ours.shutdown(socket.SHUT_WR)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def turn(number: int) -> TurnRequest:
    none, source = np.zeros(0, np.int32), PolicySource(PolicyKey("model"), 0, None)
    return TurnRequest(number, source, none, (("user", "?"),), Sampling(max_tokens=4), None)


def test_turns_that_come_in_its_sleep_are_taken_when_it_wakes(tiny_models: dict[str, str]) -> None:
    with serving(tiny_models["warren/tiny"]) as supervisor:
        supervisor.order(Orders(requests=[turn(0)], sleep=True))
        supervisor.order(Orders(requests=[turn(1), turn(2)]))
        supervisor.order(Orders(cancelled=[2]))
        supervisor.order(Orders(requests=[turn(3)], sleep=False))
        was_asleep, answered = False, set[int]()
        while answered != {0, 1, 3}:
            said = supervisor.hear()
            assert isinstance(said, Report)
            was_asleep = was_asleep or said.is_asleep
            assert was_asleep or not said.answers
            answered |= {answer.id for answer in said.answers}
        assert was_asleep


def test_a_sleeper_to_whom_much_is_said_is_heard_all_the_same(tiny_models: dict[str, str]) -> None:
    with serving(tiny_models["warren/tiny"]) as supervisor:
        supervisor.until_asleep()
        was_heard = threading.Event()

        def talk() -> None:
            while not was_heard.wait(PULSE_S / 10):
                supervisor.order(Orders())

        talking = threading.Thread(target=talk)
        talking.start()
        try:
            for _ in range(3):
                said = supervisor.hear()
                assert isinstance(said, Report)
                assert said.is_asleep
        finally:
            was_heard.set()
            talking.join(PATIENCE_S)


def test_a_sleeper_that_is_left_alone_ends(tiny_models: dict[str, str]) -> None:
    with serving(tiny_models["warren/tiny"]) as supervisor:
        supervisor.until_asleep()
        supervisor.order(Orders(requests=[turn(0)]))
