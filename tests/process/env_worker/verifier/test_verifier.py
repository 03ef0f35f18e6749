"""The whole verifier: labelled answers, hostile answers, workers that die."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.processes import children, children_running, kill_and_wait

from warren.host_services.verdict import Verdict
from warren_env_worker.verifier.pool import WORKER_MODULE, VerifierPool
from warren_env_worker.verifier.verdict import GoldUnusable
from warren_env_worker.verifier.verifier import compare, verify

RIGHT = [
    (r"2\sqrt{3}", r"\sqrt{12}"),
    (r"\{1,2\}", r"\{2,1\}"),
    ("x^2+1", "1+x^2"),
    ("(x+1)^2", "x^2+2x+1"),
    (r"\pi", "3.14159265"),
    (r"\frac{\pi}{4}", "0.7853981634"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1 & 2\\ 3 & 4\end{pmatrix}"),
    ("x=5", "5"),
    ("256", "2^8"),
    ("10!", "3628800"),
    (r"\binom{10}{3}", "120"),
    ("3+4i", "4i+3"),
    (r"1.5\times 10^3", "1500"),
    (r"\sqrt[3]{27}", "3"),
    ("e^{x^2}", r"\exp(x^2)"),
    ("1,2,3", "3,2,1"),
    ("2^{2024}", "2^{2024}"),
    (r"\frac{a}{b}", r"\frac{2a}{2b}"),
]
WRONG = [
    (r"2\sqrt{3}", "2"),
    ("(1,2)", "(2,1)"),
    ("[0,1)", "(0,1)"),
    ("(x+1)^2", "x^2+2x+2"),
    (r"\text{(A)}", "(B)"),
    (r"\text{even}", "odd"),
    (r"\pi", "3.14"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"),
    ("7", "not sure"),
    ("1,2", "1,2,3"),
]
SLOW = [  # each takes the time limit, or nearly so
    r"\frac{" * 20 + "1" + "}{2}" * 20,
    r"\tan^{-1}(" * 12 + "x" + ")" * 12,
]
ENDLESS = "{10^9}!"
r"""What no pattern of hazards finds, and no computer can write out."""
REFUSED = [
    "9^{9^{9^9}}",
    "((10!)!)!",
    r"\sum_{i=1}^{10^{12}} i^2",
    "7" * 4000,
    "\ud800",
    "1+" * 100,
]


@pytest_asyncio.fixture
async def pool() -> AsyncGenerator[VerifierPool]:
    pool = VerifierPool(1)
    yield pool
    await pool.close()


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
async def test_right_answers(gold: str, answer: str) -> None:
    assert await verify(gold, rf"It is \boxed{{{answer}}}.") is Verdict.EQUAL


@pytest.mark.parametrize(("gold", "answer"), WRONG)
async def test_wrong_answers(gold: str, answer: str) -> None:
    verdict = await verify(gold, rf"It is \boxed{{{answer}}}.")
    assert verdict in (Verdict.DIFFERENT, Verdict.UNPARSEABLE)


async def test_words_without_an_answer() -> None:
    assert await verify("42", "I don't know") is Verdict.NO_ANSWER


@pytest.mark.parametrize("answer", REFUSED)
async def test_hostile_answers_are_refused_before_they_cost_anything(answer: str) -> None:
    assert await compare("42", answer) is Verdict.REFUSED


async def test_an_answer_that_takes_too_long_is_wrong_and_leaves_a_healthy_pool(
    pool: VerifierPool,
) -> None:
    for answer in SLOW:
        verdict = await pool.compare("x^2+1", answer)
        assert verdict in (Verdict.TIMED_OUT, Verdict.DIFFERENT, Verdict.UNPARSEABLE)
        assert await pool.compare("x^2+1", "1+x^2") is Verdict.EQUAL
    assert await pool.compare("x^2+1", ENDLESS) is Verdict.TIMED_OUT


async def test_a_right_answer_that_takes_too_long_is_not_the_answers_doing(
    pool: VerifierPool,
) -> None:
    for _ in range(2):
        with pytest.raises(GoldUnusable, match=r"compared with 1: .* processor time"):
            await pool.compare(ENDLESS, "x^2+1")


async def test_a_worker_that_is_killed_is_replaced(pool: VerifierPool) -> None:
    assert await pool.compare("x+1", "1+x") is Verdict.EQUAL
    for generation in (_workers, _checkers):
        victims = generation()
        assert victims
        kill_and_wait(victims)
        assert await pool.compare("x+1", "1+x") is Verdict.EQUAL


async def test_a_cancelled_comparison_does_not_answer_the_next(pool: VerifierPool) -> None:
    assert await pool.compare("x+1", "1+x") is Verdict.EQUAL
    late = asyncio.create_task(pool.compare("x^2+1", SLOW[0]))
    await asyncio.sleep(0)  # it is under way
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert await pool.compare("x+1", "2+x") is Verdict.DIFFERENT


async def test_code_in_an_answer_is_not_run(pool: VerifierPool, tmp_path: Path) -> None:
    there = tmp_path / "there"
    for code in (f"__import__('os').system('touch {there}')", f"open('{there}','w')"):
        assert await pool.compare("x", code) is not Verdict.EQUAL
    assert not there.exists()


def _workers() -> list[int]:
    """The verifiers' processes, and none of this process's other children."""
    return children_running(WORKER_MODULE)


def _checkers() -> list[int]:
    return [checker for worker in _workers() for checker in children(worker)]
