"""The first words of a sampling child: what it waits for, and whether it can sample."""

import asyncio
from collections.abc import Callable

from warren_broker.worker.child import Child
from warren_gpu_worker.sampler.messages import (
    Broken,
    DeviceFailed,
    Gathering,
    Ready,
    unpack_answer,
)

_START_S = 1800.0
"""Loading a large model from a slow disk takes minutes."""


class SamplerBroken(Exception):
    """This base model can't be sampled from on this machine; says why."""


class StartLost(Exception):
    """The child ended before it could sample, for nothing that is wrong with the model: the next one may; says why."""


async def greeted(child: Child, base_model: str, note_missing: Callable[[int], None]) -> Ready:
    """Wait until the child can sample, and for other machines as long as it takes; it tells how many are missing.

    Raises `SamplerBroken`, `StartLost`, `ChildDied`.
    """
    n_missing = 0
    while True:
        try:
            async with asyncio.timeout(None if n_missing else _START_S):
                frame = unpack_answer(await child.receive())
        except TimeoutError as error:
            raise _broken(base_model, f"it was not loaded within {_START_S:.0f} s") from error
        match frame:
            case Gathering():
                n_missing = frame.n_missing
                note_missing(n_missing)
            case DeviceFailed():
                raise StartLost(str(frame.fault))
            case Broken():
                raise _broken(base_model, frame.reason)
            case _:
                assert isinstance(frame, Ready), "a child greets first"
                return frame


def _broken(base_model: str, reason: str) -> SamplerBroken:
    return SamplerBroken(f"{base_model} can't be sampled from: {reason}")
