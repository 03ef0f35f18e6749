from typing import Protocol

from torch import nn

class _Method(Protocol):
    def process_weights_after_loading(self, layer: nn.Module) -> None: ...

class ParallelLMHead(nn.Module):
    quant_method: _Method
