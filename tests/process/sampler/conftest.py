"""The sampler's tests sample from the tiny family, on one thread."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.support.base_models import tiny, tiny_lora, tiny_models

__all__ = ["tiny", "tiny_lora", "tiny_models"]
