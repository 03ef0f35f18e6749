from abc import ABC, abstractmethod

import torch
from torch import Tensor
from vllm.config import VllmConfig

class BatchUpdate: ...

class LogitsProcessor(ABC):
    @abstractmethod
    def __init__(
        self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool
    ) -> None: ...
    @abstractmethod
    def is_argmax_invariant(self) -> bool: ...
    @abstractmethod
    def update_state(self, batch_update: BatchUpdate | None) -> None: ...
    @abstractmethod
    def apply(self, logits: Tensor) -> Tensor: ...
