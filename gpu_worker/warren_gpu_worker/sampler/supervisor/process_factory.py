"""What makes the process of a base model's sampler; tests pass others."""

from collections.abc import Callable, Sequence
from typing import Protocol

from warren_gpu_worker.sampler.supervisor.child_process import Answered, SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare


class MakeSamplerProcess(Protocol):
    """`SamplerProcess`, or what is called like it."""

    def __call__(
        self,
        base_model: str,
        settings: GpuWorkerSettings,
        turns: OpenTurns,
        on_answered: Callable[[Answered], None],
        on_given_back: Callable[[Sequence[OpenTurn]], None],
        *,
        time_share: TimeShare | None = None,
    ) -> SamplerProcess: ...
