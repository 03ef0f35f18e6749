from collections.abc import Callable, Mapping

from torch import nn
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.lora.request import LoRARequest
from vllm.outputs import RequestOutput

class _ModelConfig:
    max_model_len: int

class LLMEngine:
    model_config: _ModelConfig
    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> LLMEngine: ...
    def add_request(
        self,
        request_id: str,
        prompt: Mapping[str, object],
        params: SamplingParams,
        *,
        lora_request: LoRARequest | None = ...,
        priority: int = ...,
    ) -> str: ...
    def abort_request(self, request_ids: list[str]) -> None: ...
    def step(self) -> list[RequestOutput]: ...
    def add_lora(self, lora_request: LoRARequest) -> bool: ...
    def remove_lora(self, lora_id: int) -> bool: ...
    def reset_prefix_cache(self, reset_running_requests: bool = ...) -> bool: ...
    def collective_rpc(
        self,
        method: str | Callable[..., object],
        *,
        args: tuple[object, ...] = ...,
        kwargs: Mapping[str, object] = ...,
    ) -> list[object]: ...
    def apply_model(self, func: Callable[[nn.Module], None]) -> list[None]: ...
    def sleep(self, level: int = ..., mode: str = ...) -> None: ...
    def wake_up(self) -> bool: ...
