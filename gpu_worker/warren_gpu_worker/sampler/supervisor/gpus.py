"""Which GPUs a sampler has, where a worker has several.

Invariants: samplers of one worker share no GPU, nor a seed; a sampler's child process sees its own GPUs alone, from its
start on, for vLLM takes the first ones that it sees. (So does a trainer that takes the first one of this machine.)
"""

from collections.abc import Iterator, Mapping

from warren_gpu_worker.forking import is_surely_on_cpu
from warren_gpu_worker.settings import GpuWorkerSettings

VISIBLE = "CUDA_VISIBLE_DEVICES"


def samplers_of(settings: GpuWorkerSettings) -> Iterator[GpuWorkerSettings]:
    """The settings of each sampler (`vllm.data_parallel`)."""
    n_gpus = settings.vllm.n_gpus
    for place in range(settings.vllm.data_parallel):
        changes: dict[str, object] = {}
        if place:  # which has no trainer beside it, on its GPUs, nor that one's machines
            changes |= {"roles": frozenset({"sampler"}), "machines": 1}
        if settings.seed is not None:
            changes["seed"] = settings.seed + place
        if settings.vllm.data_parallel > 1 and not is_surely_on_cpu(settings.device):
            changes["device"] = f"cuda:{_first_gpu(settings.device) + place * n_gpus}"
        yield settings.model_copy(update=changes)


def own_gpus(
    settings: GpuWorkerSettings, variables: Mapping[str, str]
) -> tuple[GpuWorkerSettings, dict[str, str]]:
    """What a child is told, and its variables: it sees its GPUs of this machine alone, if a first one is named.

    Raises `ValueError` where fewer are visible.
    """
    kind, _, index = settings.device.partition(":")
    if not index:
        return settings, {}
    first, n_gpus = int(index), settings.vllm.n_gpus // settings.sampler_machines
    visible = [name for name in variables.get(VISIBLE, "").split(",") if name]
    names = visible or [str(number) for number in range(first + n_gpus)]
    own = names[first : first + n_gpus]
    if len(own) < n_gpus:
        raise ValueError(
            f"a sampler on {settings.device} needs {n_gpus} GPUs from there on, and {VISIBLE} names {len(names)};"
            " lower --data-parallel, --tensor-parallel or --device"
        )
    return settings.model_copy(update={"device": kind}), {VISIBLE: ",".join(own)}


def _first_gpu(device: str) -> int:
    return int(device.partition(":")[2] or 0)
