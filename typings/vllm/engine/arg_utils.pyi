from vllm.config import VllmConfig

class EngineArgs:
    def __init__(
        self,
        *,
        model: str,
        skip_tokenizer_init: bool = ...,
        dtype: str = ...,
        seed: int = ...,
        max_model_len: int = ...,
        max_num_seqs: int = ...,
        enforce_eager: bool = ...,
        async_scheduling: bool = ...,
        scheduling_policy: str = ...,
        enable_prefix_caching: bool = ...,
        kv_cache_memory_bytes: int | None = ...,
        gpu_memory_utilization: float = ...,
        enable_lora: bool = ...,
        max_loras: int = ...,
        max_cpu_loras: int = ...,
        max_lora_rank: int = ...,
        logprobs_mode: str = ...,
        disable_log_stats: bool = ...,
        enable_sleep_mode: bool = ...,
    ) -> None: ...
    def create_engine_config(self, *, headless: bool = ...) -> VllmConfig: ...
