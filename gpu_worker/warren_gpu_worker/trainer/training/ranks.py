# pyright: reportUnknownMemberType=false
"""The ranks of a training process: one process for each device, which train one model between them.

All ranks are given the same orders. Each computes its own rows of a batch with its own shard of the
weights, and FSDP2 (see `sharding`) puts weights and gradients together.

Invariants:
- All ranks do the same things in the same order, for one that waits for another's part waits in
  vain if that one does something else. So whatever one rank alone may do or find out (files, the
  metrics of its rows) becomes known to all before anyone goes on.
- An error that one rank alone has, in the middle of a computation, can't become known: its process
  ends, the supervisor ends the others, and the op log is applied again from the newest checkpoint.
  If there was no memory for an op, that one is failed then (see `process`).
- Nobody waits for ever: whoever takes longer than `launching/joining` allows ends the process that waits.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from torch import distributed
from torch.distributed.device_mesh import DeviceMesh

from warren_gpu_worker.device_errors import is_device_lost
from warren_gpu_worker.trainer.errors import (
    OpDiskFull,
    OpError,
    RankFailed,
    is_disk_full,
    reason_of,
)

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among the others; by default there are no others."""

    rank: int = 0
    size: int = 1
    mesh: DeviceMesh | None = None
    """All devices in one row; None where there is only one."""

    @property
    def is_first(self) -> bool:
        """The first rank answers, and writes what is written."""
        return self.rank == 0

    def gather(self, mine: T) -> list[T]:
        """What each rank has, in the order of ranks."""
        if self.size == 1:
            return [mine]
        found: list[T | None] = [None] * self.size
        distributed.all_gather_object(found, mine)
        return cast("list[T]", found)

    def must_end(self, error: Exception) -> bool:
        """Whether no other op could go on: the device is lost, or this rank alone may have the
        error, while others wait for it."""
        is_alone_with_it = self.size > 1 and not isinstance(error, OpError)
        return is_device_lost(error) or is_alone_with_it

    def all_or_none(self, work: Callable[[], T]) -> T:
        """Every rank does it; where one fails all raise `OpError`. `work` waits for no other rank."""
        if self.size == 1:
            return work()
        result, error = _attempt(work)
        return _settled(result, next(filter(None, self.gather(error)), None))

    def by_first(self, work: Callable[[], T]) -> T:
        """The first rank does it, and all get what came of it or raise `OpError`."""
        if self.size == 1:
            return work()
        outcome = [_attempt(work) if self.is_first else None]
        distributed.broadcast_object_list(outcome, src=0)
        return _settled(*cast("tuple[T | None, OpError | None]", outcome[0]))


ALONE = Ranks()


def _attempt(work: Callable[[], T]) -> tuple[T | None, OpError | None]:
    """(result, None) or (None, the error as all ranks are to raise it)"""
    try:
        return work(), None
    except Exception as error:  # all ranks raise it once they know
        if is_device_lost(error):
            raise
        if not isinstance(error, OpError):
            log.warning("a rank can't go on with an op", exc_info=True)
        return None, _as_told(error)


def _as_told(error: Exception) -> OpError:
    if is_disk_full(error):
        return OpDiskFull(reason_of(error))
    if isinstance(error, OpError):
        return OpError(str(error))
    return RankFailed(reason_of(error))


def _settled(result: T | None, error: OpError | None) -> T:
    if error is not None:
        raise error
    return cast("T", result)
