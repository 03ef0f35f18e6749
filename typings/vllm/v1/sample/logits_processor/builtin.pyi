from collections.abc import Callable
from typing import TypeVar

from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate

_T = TypeVar("_T")

def process_dict_updates(
    req_entries: dict[int, _T],
    batch_update: BatchUpdate | None,
    new_state: Callable[[SamplingParams, list[int] | None, list[int]], _T | None],
) -> bool: ...
