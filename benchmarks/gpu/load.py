"""How busy a GPU is while something runs."""

import threading
import time
from dataclasses import dataclass, field

_EVERY_S = 0.05


@dataclass
class GpuLoad:
    """What NVML says of the GPU, every 50 ms, in a thread."""

    on_gpu: bool
    _busy: list[bool] = field(default_factory=list[bool])

    def begin(self) -> None:
        if self.on_gpu:
            threading.Thread(target=self._watch, daemon=True).start()

    def idle_share(self) -> float | None:
        return 1 - sum(self._busy) / len(self._busy) if self._busy else None

    def _watch(self) -> None:
        import pynvml  # pyright: ignore[reportMissingImports]

        pynvml.nvmlInit()  # pyright: ignore
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)  # pyright: ignore
        while True:
            used = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu  # pyright: ignore
            self._busy.append(bool(used))  # pyright: ignore
            time.sleep(_EVERY_S)
