"""pass@k: the chance that at least one of `k` samples of a task solves it.

The unbiased estimator from `n >= k` samples of which `c` solve the task: M. Chen et al., "Evaluating Large
Language Models Trained on Code" (arXiv:2107.03374, equation 1),

    1 - C(n - c, k) / C(n, k)

as the product that its figure 3 computes, which stays exact where the binomials are large.
"""

import math


def pass_at_k(n: int, c: int, k: int) -> float:
    """Of one task; `0 <= c <= n` and `1 <= k <= n`. Raises `ValueError` for other numbers."""
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} of {n} samples with {c} that solve the task is not defined")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))
