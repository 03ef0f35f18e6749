"""Base models: which ones this worker offers, where they lie, how they are loaded.

Importing this package loads neither torch nor transformers.
"""

from warren_gpu_worker.base_models.loading import load_base, load_tokenizer
from warren_gpu_worker.base_models.registry import (
    UnknownBaseModel,
    named_choices,
    resolve_base_models,
    resolve_name,
)

__all__ = [
    "UnknownBaseModel",
    "load_base",
    "load_tokenizer",
    "named_choices",
    "resolve_base_models",
    "resolve_name",
]
