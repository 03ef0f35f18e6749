"""Settings of one GPU worker: what it offers, which roles it plays, how much it may use."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from warren_broker.port import MAX_PREFETCH
from warren_gpu_worker.machines.options import parse_rendezvous, why_not_meet, why_not_spread
from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt, PositiveFloat, PositiveInt

Role = Literal["sampler", "trainer"]
EngineName = Literal["auto", "vllm", "transformers"]
OnNewWeights = Literal["keep", "recompute", "drain"]
Sleep = Literal["never", "while_training"]


def warren_home() -> Path:
    """Where Warren keeps its files: `WARREN_HOME`, or `~/.warren`."""
    return Path(os.environ.get("WARREN_HOME") or "~/.warren").expanduser().absolute()


def default_checkpoint_url() -> str:
    return (warren_home() / "checkpoints").as_uri()


def default_models_url() -> str:
    return (warren_home() / "base-models").as_uri()


class VllmSettings(Frozen):
    """What only vLLM needs to know."""

    max_adapters: NonNegativeInt = 16
    """Maximum number of loaded adapters; 0 disables LoRA, which makes full-parameter sampling faster."""
    max_adapters_at_once: PositiveInt = 4
    """Maximum number of adapters in one decoding step."""
    max_adapter_rank: Literal[8, 16, 32, 64, 128, 256, 320, 512] = 64
    """Maximum rank of an adapter; vLLM reserves memory for it at the start."""
    gpu_memory_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the GPU's memory for vLLM. By default 0.9, less what training by LoRA needs where this worker's trainer
    has the same GPU; the worker's log says how much that is."""
    max_context: PositiveInt | None = None
    """Most tokens of prompt and answer together that vLLM accepts; by default the model's own maximum,
    or what the memory holds of it."""
    kv_cache_dtype: Literal["auto", "fp8"] = "auto"
    """Data type of vLLM's cache: `auto` is the model's; `fp8` holds twice as many tokens on a GPU, and
    its logprobs differ from the trainer's."""
    prefix_caching: bool = True
    """Keep the cache of prompts for others that begin alike, as each turn of an episode begins with the last one;
    --no-prefix-caching keeps none."""
    cuda_graphs: bool = True
    """Record CUDA graphs at the start, and compile: more tokens per second, for a minute and a few GiB more
    (--no-cuda-graphs: not). On a CPU nothing is recorded or compiled."""
    tensor_parallel: PositiveInt = 1
    """Number of GPUs over which vLLM splits each layer, from --device on; on this machine, or on several (--machines)."""
    pipeline_parallel: PositiveInt = 1
    """Number of stages, each of some layers on GPUs of its own; needs `--on-new-weights drain`."""
    data_parallel: PositiveInt = 1
    """Number of samplers, each with GPUs and a copy of the model of its own; they share the queue as workers do."""
    attention_backend: str | None = None
    """Attention kernels of vLLM, by its own names (`FLASH_ATTN`, `TRITON_ATTN`, …); by default it chooses."""
    sleep: Sleep = "never"
    """`while_training`: vLLM sleeps and frees its memory while this worker trains a full-parameter model.
    `never`: both have to fit into memory."""

    @property
    def n_gpus(self) -> int:
        """Of one copy of the model."""
        return self.tensor_parallel * self.pipeline_parallel


def _words(given: object) -> object:
    """`sampler,trainer` as two words, as people write them in a variable or behind an option."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Iterable):
        return given
    each = cast("Iterable[object]", given)
    return [word.strip() for item in each for word in str(item).split(",")]


Roles = Annotated[frozenset[Role], Field(min_length=1), BeforeValidator(_words)]


class GpuWorkerOptions(Frozen):
    """What may be chosen on a command line (see `options`): each sentence is the option's help."""

    checkpoint_url: str = Field(default_factory=default_checkpoint_url)
    """Where policies and checkpoints are stored: a folder or any fsspec URL, the same for all workers,
    because samplers read what trainers write."""
    roles: Roles = frozenset({"sampler", "trainer"})
    """Roles of the worker: `sampler`, `trainer`, or both, separated by a comma."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Data type of the weights, the same for all workers of a run; `auto` is bfloat16 on a GPU and float32
    on a CPU. In full-parameter training the weights are float32, and this is the type that is computed in."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, …; `auto` uses a GPU if there is one."""
    devices: PositiveInt = 1
    """Number of devices of this machine over which a trained model is sharded (FSDP2, one process each);
    with more than one, the worker trains one model at a time."""
    machines: PositiveInt = 1
    """Number of machines over which a trained model is sharded, `--devices` of each; with `--roles sampler`, over which
    vLLM is spread, an equal part of its GPUs on each. They meet at --rendezvous."""
    rendezvous: str | None = None
    """HOST:PORT at which the machines meet: an address of the one that talks to the broker, and a free port there, in a
    network of your own, since whoever reaches it can run code in the worker."""
    engine: EngineName = "auto"
    """Engine of the sampler: `vllm`, `transformers`, or `auto` (vLLM if it can run the model)."""
    may_load: tuple[str, ...] = ()
    """A base model (written as for --base-model) that this worker, when idle, loads instead of its own if a run waits
    for it; or a pattern of names (Qwen/*) or folders (/models/*); repeatable."""
    model_cache_gib: PositiveFloat = 200.0
    """Most GiB of base models that users uploaded and this worker has loaded, in `cache` of WARREN_HOME; the least
    recently used ones are dropped."""
    on_new_weights: OnNewWeights = "keep"
    """What happens to turns in flight when their policy is updated: `keep` (continue with the cache),
    `recompute` (continue with a recomputed cache) or `drain` (finish first; new turns wait)."""
    vllm: VllmSettings = VllmSettings()
    n_threads: PositiveInt = 1
    """CPU threads per child process; more than 1 helps large models only."""
    seed: NonNegativeInt | None = None
    """Seed of the sampler. By default each sampler draws its own, so that two of them don't give the same
    answers."""
    max_batch: Annotated[int, Field(gt=0, le=MAX_PREFETCH)] = 256
    """Maximum number of sequences that a sampler decodes at once."""
    max_batch_tokens: PositiveInt = 262_144
    """Maximum number of cached tokens, padding included."""
    max_models: PositiveInt = 16
    """Maximum number of LoRA models in a trainer; a full-parameter model has it to itself."""
    resident_models: PositiveInt = 8
    """LoRA models kept in memory; the least recently used ones are moved to disk."""
    micro_batch_tokens: PositiveInt = 16_384
    """Maximum number of tokens, padding included, per forward pass of the trainer; lower it to save memory."""
    pack_sequences: bool = True
    """Lay the sequences that are trained on end to end instead of padding them to one length (--no-pack-sequences: pad). A model whose
    layers don't all see everything before (sliding windows) gets padded sequences in any case."""
    split_sequences: bool = False
    """Split each sequence over the devices of a trained model (--devices, --machines), in place of whole sequences to
    each: for sequences that are too long for one device. The model's attention heads must be divisible by their number."""
    checkpoint_activations: bool = False
    """Recompute activations in the backward pass (gradient checkpointing): less memory, a third more work."""
    policy_memory_bytes: PositiveInt = 8 * 1024**3
    """Memory for policies loaded beside the base model; the least recently used one is unloaded."""
    hang_s: PositiveFloat = 300.0
    """A child process that has work and doesn't respond for this many seconds is killed; a trainer that
    reads or writes files gets more time, depending on their size."""
    min_disk_bytes_per_s: PositiveFloat = 20e6
    """Lowest speed expected of the disks for checkpoints and base models: a child process that works on a
    file gets the time that this speed takes. Lower it if trainers are killed while they save."""
    log_dir: Path | None = None
    """Folder for the output of the child processes (default: the worker's own output)."""

    @property
    def n_ranks(self) -> int:
        """Processes that train a model between them."""
        return self.machines * self.devices

    @property
    def sampler_machines(self) -> int:
        """Those over which vLLM is spread; a worker that also trains has them for its trainer."""
        return 1 if "trainer" in self.roles else self.machines

    @property
    def rendezvous_address(self) -> tuple[str, int] | None:
        """Host and port of `rendezvous`."""
        return None if self.rendezvous is None else parse_rendezvous(self.rendezvous)

    def log_path(self, name: str) -> Path | None:
        """The file for a child process's output, in a folder that is there; None: this process's own output."""
        if self.log_dir is None:
            return None
        self.log_dir.mkdir(parents=True, exist_ok=True)
        return self.log_dir / f"{name.replace('/', '-')}.log"

    @property
    def takes_turns(self) -> bool:
        """Whether sampler and full-parameter training have the GPU's memory in turn."""
        return self.vllm.sleep == "while_training"

    @model_validator(mode="after")
    def _can_take_turns(self) -> Self:
        if not self.takes_turns:
            return self
        if len(self.roles) < 2:
            obstacle = f"this worker is a {' and '.join(self.roles)} alone"
        elif self.engine == "transformers":
            obstacle = "the engine transformers has no sleep mode; take vllm"
        elif self.device == "cpu":
            obstacle = "vLLM has no sleep mode on a CPU"
        elif self.n_ranks > 1:
            obstacle = f"each model is spread over {self.n_ranks} devices, and vLLM has one of them"
        elif self.vllm.n_gpus * self.vllm.data_parallel > 1:
            obstacle = "vLLM has several, and the trainer one of them"
        else:
            return self
        raise ValueError(
            "vllm.sleep is while_training, for a sampler and a trainer that share one GPU, and"
            f" {obstacle}"
        )

    @model_validator(mode="after")
    def _loads_for_both(self) -> Self:
        if self.may_load and len(self.roles) < 2:
            raise ValueError(
                "may_load is for a worker that is a sampler and a trainer, so that what it loads can be"
                f" trained, and this one is a {' and '.join(self.roles)} alone"
            )
        return self

    @model_validator(mode="after")
    def _can_be_parallel(self) -> Self:
        vllm = self.vllm
        if self.engine == "transformers" and vllm.n_gpus > 1:
            asked = "tensor_parallel" if vllm.tensor_parallel > 1 else "pipeline_parallel"
            raise ValueError(f"vllm.{asked} is vLLM's, and engine is transformers; take vllm")
        if vllm.pipeline_parallel > 1 and self.on_new_weights != "drain":
            raise ValueError(
                "vllm.pipeline_parallel has several batches under way, so while weights change nobody can tell which"
                f" ones a token was sampled with; on_new_weights is {self.on_new_weights}, take drain (or tensor_parallel)"
            )
        if vllm.data_parallel > 1 and self.may_load:
            raise ValueError(
                "may_load is for a worker with one sampler, and vllm.data_parallel makes"
                f" {vllm.data_parallel}; start a worker for each GPU, by --device cuda:0, cuda:1, …"
            )
        return self

    @model_validator(mode="after")
    def _cache_is_of_the_device(self) -> Self:
        if self.vllm.kv_cache_dtype != "auto" and self.device == "cpu":
            raise ValueError(
                f"vllm.kv_cache_dtype is {self.vllm.kv_cache_dtype}, and vLLM's cache on a CPU has the model's own type; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _can_meet(self) -> Self:
        loads_others = bool(self.may_load)
        if obstacle := why_not_meet(self.machines, self.rendezvous, loads_others=loads_others):
            raise ValueError(obstacle)
        return self

    @model_validator(mode="after")
    def _can_split(self) -> Self:
        if self.split_sequences and (self.n_ranks == 1 or not self.pack_sequences):
            needs = "several devices (--devices)" if self.n_ranks == 1 else "packed sequences"
            raise ValueError(f"split_sequences is for {needs}")
        return self

    @model_validator(mode="after")
    def _has_devices(self) -> Self:
        if self.devices > 1 and ":" in self.device:
            kind = self.device.partition(":")[0]
            raise ValueError(
                f"{self.device} is one device, and devices is {self.devices};"
                f" name the kind alone ({kind}), and choose among GPUs by CUDA_VISIBLE_DEVICES"
            )
        return self


class GpuWorkerSettings(GpuWorkerOptions):
    base_models: Annotated[dict[str, str], Field(min_length=1)]
    """Name -> local folder (see `base_models.resolve_base_models`)."""
    models_url: str = Field(default_factory=default_models_url)
    """Where gateways keep the base models that users upload."""
    adapters: dict[str, str] = Field(default_factory=dict)
    """Adapters that training may start with: name -> folder in peft's format, or its fsspec URL."""
    join: bool = False
    """Join the worker that listens at `rendezvous`: use the devices for it, and do nothing else."""

    @model_validator(mode="after")
    def _has_whom_to_join(self) -> Self:
        if self.join and self.machines == 1:
            raise ValueError(
                "join is for a model on several machines; say how many by machines, and where they meet"
                " by rendezvous"
            )
        return self

    @model_validator(mode="after")
    def _can_be_spread(self) -> Self:
        obstacle = why_not_spread(
            self.sampler_machines,
            n_gpus=self.vllm.n_gpus,
            n_samplers=self.vllm.data_parallel,
            n_base_models=len(self.base_models),
            engine=self.engine,
        )
        if obstacle is not None:
            raise ValueError(obstacle)
        return self

    def with_own(self, own: Self) -> Self:
        """These settings on another machine, which has devices and folders of its `own`."""
        names = ("base_models", "adapters", "device", "n_threads")
        return self.model_copy(update={name: getattr(own, name) for name in names})
