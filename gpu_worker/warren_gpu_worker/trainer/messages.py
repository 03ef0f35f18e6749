"""What the supervisor and its training child say to each other; pickled, for both are one program.

supervisor -> child    Open, Close, Apply, ApplyBatched, Fail, Offload; NOTHING
child -> supervisor    Ready once, then an Answer for each Open (number 0) and each op, and Offloaded for
                       each Offload, in order; a Pulse now and then in the middle of a long op, and
                       before each step over files; DiskFull while a disk is full; TooLarge or DeviceFailed as a rank's last word
"""

import pickle
from dataclasses import dataclass
from typing import cast

from warren_gpu_worker.device_faults import DeviceFault
from warren_gpu_worker.fitting import DeviceMemory
from warren_schemas.ids import ModelId
from warren_schemas.training import ModelSpec, OpBody, OpOutcome

NOTHING = b""
"""Said now and then while there is nothing to do: ranks wait for the next order on connections that somebody
between two machines may close for want of use."""
START_S = 300.0
"""Until the child must be ready: it imports torch, perhaps on a cold and busy machine, and waits for
its other ranks, which do so too."""


@dataclass(frozen=True, slots=True)
class Open:
    model: ModelId
    epoch: int
    spec: ModelSpec
    checkpoint_url: str | None
    next_op: int
    owner: str = ""
    """Who shares the worker fairly with others."""
    max_tokens: int | None = None
    """Most tokens of a pass, where the device had no memory for more."""


@dataclass(frozen=True, slots=True)
class Close:
    """Forget the model, unless it was opened again with a newer epoch."""

    model: ModelId
    epoch: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Consecutive ops of one model."""

    model: ModelId
    epoch: int
    ops: tuple[tuple[int, OpBody], ...]
    """(number, body)"""


@dataclass(frozen=True, slots=True)
class ApplyBatched:
    """One op of each of several models; they may share a batch."""

    applies: tuple[Apply, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    """Count an op of one model as failed: it has ended the ranks when it was tried."""

    apply: Apply
    reason: str


@dataclass(frozen=True, slots=True)
class Offload:
    """Take full-parameter models off the device, until an op needs them."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The child can take orders."""

    memory: DeviceMemory | None = None
    """Where the worker may load other base models."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The child is getting on."""

    size_bytes: int = 0
    """Of files that it moves next, which takes its time (see `progress`)."""


@dataclass(frozen=True, slots=True)
class DiskFull:
    """The files of this model don't fit on the disk; the child tries again, and says so each time."""

    model: ModelId


@dataclass(frozen=True, slots=True)
class Offloaded:
    """The device's memory is free."""


@dataclass(frozen=True, slots=True)
class Answer:
    model: ModelId
    epoch: int
    number: int
    outcome: OpOutcome


@dataclass(frozen=True, slots=True)
class TooLarge:
    """This rank has no memory for an op, and ends: others wait for its part, or half a gradient is there."""

    model: ModelId
    number: int
    reason: str
    max_tokens: int | None = None
    """Most tokens of a pass that may fit; None: it can't be cut."""


@dataclass(frozen=True, slots=True)
class DeviceFailed:
    """This rank can't use its device any more, and ends."""

    fault: DeviceFault


Order = Open | Close | Apply
Turn = Order | ApplyBatched | Offload
Report = Ready | Pulse | DiskFull | Offloaded | Answer | TooLarge | DeviceFailed


def pack(frame: Turn | Fail | Report) -> bytes:
    return pickle.dumps(frame, protocol=5)


def unpack_order(frame: bytes) -> Turn | Fail:
    return cast("Turn | Fail", pickle.loads(frame))


def unpack_report(frame: bytes) -> Report:
    return cast(Report, pickle.loads(frame))
