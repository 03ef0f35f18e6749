"""What comparing answers costs, and how long the worst answer holds a verifier up.

`python -m benchmarks.verifier` prints comparisons per second (one at a time in this process where no
algebra is needed; two workers where it is), then the time and fate of each hostile answer, and of
the comparison after it. The whole way is measured: from a model's words to a verdict.
"""

import asyncio
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from warren_env_worker.verifier.verifier import verify

GOLD = "x^2+1"
PLAIN = (("42", "42.0"), (r"\frac{1}{2}", "0.5"), ("1,000", "1000"), (r"50\%", "50"))
ALGEBRA = (
    *((GOLD, "1+x^2"), (r"2\sqrt{3}", r"\sqrt{12}"), (r"\{1,2\}", r"\{2,1\}"), ("7", "x")),
    *(
        ("(x+1)^2", "x^2+2x+1"),
        (r"\frac{\pi}{4}", "0.785398"),
        ("3+4i", "4i+3"),
        ("[0,1)", "(0,1)"),
    ),
)
HOSTILE = {
    "a tower of powers": "9^{9^{9^9}}",
    "a tower that no pattern finds": "{9^9}^{9^9}",
    "a factorial of factorials": "((10!)!)!",
    "a large factorial": "999!+998!+997!",
    "a sum without end": r"\sum_{i=1}^{10^{12}} i^2",
    "nested fractions": r"\frac{" * 20 + "1" + "}{2}" * 20,
    "nested functions": r"\tan^{-1}(" * 12 + "x" + ")" * 12,
    "nested roots": r"\sqrt{2+" * 20 + "x" + "}" * 20,
    "a power of a sum": "(x+y+z+w+v)^{40}",
    "products of sums": "(x+y+z+1)(x-y+2)" * 12,
    "a large matrix": r"\begin{pmatrix}" + r"x&y\\" * 40 + r"x&y\end{pmatrix}",
    "a hundred thousand digits": "7" * 100_000,
    "a megabyte": "x+" * 500_000 + "1",
    "a megabyte of open braces": "{" * 1_000_000,
    "twenty thousand boxes": r"\boxed{" * 20_000,
}
N_PLAIN = 50_000
N_ALGEBRA = 1000
N_AT_ONCE = 8


async def rate(pairs: Sequence[tuple[str, str]], n_pairs: int) -> float:
    """Comparisons per second, `N_AT_ONCE` under way."""
    numbers = iter(range(n_pairs))

    async def some() -> None:
        for number in numbers:
            gold, answer = pairs[number % len(pairs)]
            await verify(gold, rf"It is \boxed{{{answer}}}.")

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(N_AT_ONCE)))
    return n_pairs / (time.perf_counter() - began)


async def fate(answer: str) -> tuple[float, str]:
    """Seconds, and the verdict."""
    began = time.perf_counter()
    end = str(await verify(GOLD, rf"It is \boxed{{{answer}}}."))
    return time.perf_counter() - began, end


async def main() -> None:
    await rate(ALGEBRA, N_AT_ONCE)  # the workers have started
    print(f"no algebra needed   {await rate(PLAIN, N_PLAIN):8,.0f} answers/s")
    print(f"algebra             {await rate(ALGEBRA, N_ALGEBRA):8,.0f} answers/s")
    shown = Table("hostile answer", "s", "what came out", "next comparison s")
    worst_s = 0.0
    for kind, answer in HOSTILE.items():
        took_s, end = await fate(answer)
        after_s, after = await fate("1+x^2")
        worst_s = max(worst_s, took_s)
        shown.add_row(kind, f"{took_s:.3f}", end[:60], f"{after_s:.3f} {after}")
    Console(width=130).print(shown)
    print(f"worst: {worst_s:.2f} s")


if __name__ == "__main__":
    asyncio.run(main())
