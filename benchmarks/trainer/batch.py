"""The batch of the update that both sides take, and the model they update.

Legend: B sequences, P prompt tokens, C completion tokens.
"""

import numpy as np
from numpy.typing import NDArray

N_ROWS, N_PROMPT, N_COMPLETION = 64, 24, 24
N_TOKENS = N_ROWS * (N_PROMPT + N_COMPLETION)
VOCABULARY = 56
STEPS, WARM_STEPS = 60, 10
LEARNING_RATE, CLIP_NORM, CLIP_LOW, CLIP_HIGH = 1e-4, 1.0, 0.8, 1.28

Floats = NDArray[np.float32]


def tokens() -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Prompts [B, P] and completions [B, C], without special tokens."""
    rng = np.random.default_rng(0)
    ids = rng.integers(3, VOCABULARY, (N_ROWS, N_PROMPT + N_COMPLETION), dtype=np.int32)
    return ids[:, :N_PROMPT], ids[:, N_PROMPT:]


def advantages() -> Floats:
    """[B]"""
    return np.random.default_rng(1).normal(size=N_ROWS).astype(np.float32)


def sampler_logprobs() -> Floats:
    """[B, C]"""
    shape = (N_ROWS, N_COMPLETION)
    return -np.random.default_rng(2).uniform(3.0, 5.0, shape).astype(np.float32)
