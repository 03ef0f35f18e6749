"""From a model's words to a verdict: what is cheap first, algebra last and out of reach.

Invariant: nothing but `exact` and `hazard`, whose time is bounded by the length of the text, runs
in the caller's process.
"""

import os
from functools import cache

from warren.host_services.verdict import AnswerForm, Verdict
from warren_env_worker.background_loop import background_loop
from warren_env_worker.verifier.exact import same
from warren_env_worker.verifier.extraction import extract
from warren_env_worker.verifier.pool import VerifierPool
from warren_env_worker.verifier.too_expensive import is_hazardous, is_too_long
from warren_env_worker.verifier.verdict import GoldUnusable

N_WORKERS = 2
"""Of each process that verifies."""
MAX_GOLD_CHARS = 4000


async def verify(gold: str, text: str, form: AnswerForm = AnswerForm.AUTO) -> Verdict:
    """Hold the answer in a model's words against the right one. Raises `VerificationFailed`."""
    answer = extract(text, form)
    return Verdict.NO_ANSWER if answer is None else await compare(gold, answer)


async def compare(gold: str, answer: str) -> Verdict:
    """Hold one answer against the right one. Raises `VerificationFailed`."""
    verdict = _quick(gold, answer)
    return verdict or await background_loop().call(pool_of(os.getpid()).compare(gold, answer))


def _quick(gold: str, answer: str) -> Verdict | None:
    if len(gold) > MAX_GOLD_CHARS:
        raise GoldUnusable(f"the right answer has {len(gold)} characters: no formula has")
    if is_too_long(gold, answer):
        return Verdict.REFUSED
    is_same = same(gold, answer)
    if is_same is None:
        return Verdict.REFUSED if is_hazardous(gold, answer) else None
    return Verdict.EQUAL if is_same else Verdict.DIFFERENT


@cache
def pool_of(process: int) -> VerifierPool:
    """The pool of this process; one that was forked makes its own."""
    return VerifierPool(N_WORKERS)
