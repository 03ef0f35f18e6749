"""Measure and print one table."""

import asyncio
import contextlib
import statistics
import time

from warren_env_worker.sandbox.opening import AUTOMATIC, MAKERS, Sandboxes
from warren_env_worker.sandbox.port import Sandbox, SandboxFailed
from warren_env_worker.sandbox.settings import SandboxSettings
from warren_env_worker.verifier.exact import same
from warren_env_worker.verifier.pool import VerifierPool
from warren_env_worker.verifier.verdict import VerificationFailed

N_STARTS = 10
N_CELLS = 100
N_SESSIONS = 8
N_COMPARISONS = 500
LIMIT_S = 60.0
PLAIN = (("42", "42.0"), (r"\frac{1}{2}", "0.5"), ("1,000", "1000"), (r"50\%", "50"))
ALGEBRA = (("x^2+1", "1+x^2"), (r"2\sqrt{3}", r"\sqrt{12}"), (r"\{1,2\}", r"\{2,1\}"), ("7", "x"))
HOSTILE = (r"\tan^{-1}(" * 12 + "x" + ")" * 12, r"\frac{" * 20 + "1" + "}{2}" * 20)


async def measured_tier(tier: str) -> str:
    settings = SandboxSettings.model_validate({"tier": tier})
    await (await Sandboxes(settings).open()).close()
    starts_s: list[float] = []
    cells_s: list[float] = []
    for _ in range(N_STARTS):
        sandbox = MAKERS[tier](settings)
        began = time.perf_counter()
        await sandbox.start()
        starts_s.append(time.perf_counter() - began)
        cells_s += await _cells(sandbox, N_CELLS // N_STARTS)
        await sandbox.close()
    return (
        f"{tier:<12} start {_ms(starts_s)}   cell {_ms(cells_s)}"
        f"   {N_SESSIONS} sessions {await _rate(tier, settings):7.0f} cells/s"
    )


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


async def measured_verifier() -> str:
    began = time.perf_counter()
    for number in range(100 * N_COMPARISONS):
        same(*PLAIN[number % len(PLAIN)])
    plain = 100 * N_COMPARISONS / (time.perf_counter() - began)
    pool = VerifierPool(2)
    await asyncio.gather(*(pool.compare("x+1", "1+x") for _ in range(2)))
    began = time.perf_counter()
    pairs = (ALGEBRA[number % len(ALGEBRA)] for number in range(N_COMPARISONS))
    await asyncio.gather(*(pool.compare(*pair) for pair in pairs))
    algebra = N_COMPARISONS / (time.perf_counter() - began)
    worst_s = max([await _hostile(pool, answer) for answer in HOSTILE])
    await pool.close()
    return f"verifier     plain {plain:.0f}/s   algebra {algebra:.0f}/s   hostile, worst {worst_s:.2f} s"


async def _hostile(pool: VerifierPool, answer: str) -> float:
    began = time.perf_counter()
    with contextlib.suppress(VerificationFailed):
        await pool.compare("x^2+1", answer)
    return time.perf_counter() - began


def _ms(took_s: list[float]) -> str:
    return f"{1000 * statistics.median(took_s):6.1f} ms (best {1000 * min(took_s):.1f})"


async def main() -> None:
    for tier in AUTOMATIC:
        try:
            print(await measured_tier(tier), flush=True)
        except SandboxFailed as error:
            print(f"{tier:<12} {error}")
    print(await measured_verifier())


if __name__ == "__main__":
    asyncio.run(main())
