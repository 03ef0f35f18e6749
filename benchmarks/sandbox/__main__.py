"""Measure and print one table."""

import asyncio
import statistics
import time

from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.sandbox.opening import AUTOMATIC, MAKERS, Sandboxes
from warren_env_worker.sandbox.port import Sandbox
from warren_env_worker.sandbox.spares import Spares

N_STARTS = 10
N_CELLS = 100
N_SESSIONS = 8
LIMIT_S = 60.0


async def measured_tier(tier: str) -> str:
    settings = SandboxSettings.model_validate({"tier": tier})
    await (await Sandboxes(settings, TRUSTED).open()).close()
    starts_s: list[float] = []
    cells_s: list[float] = []
    for _ in range(N_STARTS):
        sandbox = MAKERS[tier](settings)
        began = time.perf_counter()
        await sandbox.start()
        starts_s.append(time.perf_counter() - began)
        cells_s += await _cells(sandbox, N_CELLS // N_STARTS)
        await sandbox.close()
    opens_s = await _opens_with_spares(settings)
    return (
        f"{tier:<12} start {_ms(starts_s)}   one that waits {_ms(opens_s)}   cell {_ms(cells_s)}"
        f"   {N_SESSIONS} sessions {await _rate(tier, settings):7.0f} cells/s"
    )


async def _opens_with_spares(settings: SandboxSettings) -> list[float]:
    """How long an episode waits for its sandbox, where one was started before."""
    took_s: list[float] = []
    spares = Spares(1)
    sandboxes = Sandboxes(settings, TRUSTED, spares=spares)
    await (await sandboxes.open()).close()
    for _ in range(N_STARTS):
        while not spares.n_waiting:  # noqa: ASYNC110 - what is measured comes afterwards
            await asyncio.sleep(0.01)
        began = time.perf_counter()
        sandbox = await sandboxes.open()
        took_s.append(time.perf_counter() - began)
        await sandbox.close()
    await spares.close()
    return took_s


async def _cells(sandbox: Sandbox, n_cells: int) -> list[float]:
    took_s: list[float] = []
    for number in range(n_cells):
        began = time.perf_counter()
        await sandbox.run(f"x = {number}\nprint(x * x)", LIMIT_S)
        took_s.append(time.perf_counter() - began)
    return took_s


async def _rate(tier: str, settings: SandboxSettings) -> float:
    sandboxes = [MAKERS[tier](settings) for _ in range(N_SESSIONS)]
    await asyncio.gather(*(sandbox.start() for sandbox in sandboxes))
    began = time.perf_counter()
    await asyncio.gather(*(_cells(sandbox, N_CELLS) for sandbox in sandboxes))
    took_s = time.perf_counter() - began
    await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
    return N_SESSIONS * N_CELLS / took_s


def _ms(took_s: list[float]) -> str:
    return f"{1000 * statistics.median(took_s):6.1f} ms (best {1000 * min(took_s):.1f})"


async def main() -> None:
    for tier in AUTOMATIC:
        try:
            print(await measured_tier(tier), flush=True)
        except SandboxFailed as error:
            print(f"{tier:<12} {error}")


if __name__ == "__main__":
    asyncio.run(main())
