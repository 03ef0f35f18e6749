"""Why an engine did not start, with what to change where it is the device."""

from warren_gpu_worker.device_errors import fault_of, first_line, is_out_of_memory

_VLLM_SIGNS = {
    "Free memory on device": "somebody else has part of the GPU's memory, a trainer perhaps: lower --gpu-memory-share, or end"
    " what has it (`nvidia-smi` says)",
    "No available memory for the cache": "vLLM's share of the GPU's memory has room for the weights and none for its cache:"
    " raise --gpu-memory-share, or spread the model by --tensor-parallel",
    "KV cache is needed": "vLLM's cache does not hold one turn of the longest context: lower --max-context, or raise"
    " --gpu-memory-share",
}
_NO_MEMORY = (
    "out of memory while the model was loaded: lower --gpu-memory-share, --max-batch or --max-adapter-rank, leave CUDA graphs"
    " out by --no-cuda-graphs, or spread the model by --tensor-parallel"
)


def start_failure(error: Exception) -> str:
    """A sentence with a hint; what the library said stands behind it."""
    text = str(error)
    if (fault := fault_of(error)) is not None:
        return str(fault)
    for sign, advice in _VLLM_SIGNS.items():
        if sign in text:
            return f"{advice} ({first_line(text)})"
    return f"{_NO_MEMORY} ({first_line(text)})" if is_out_of_memory(error) else text
