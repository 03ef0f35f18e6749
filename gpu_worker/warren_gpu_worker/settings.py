"""Settings of one GPU worker: what it offers, which roles it plays, how much it may use."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from warren_broker.port import MAX_PREFETCH
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


class VllmSettings(Frozen):
    """What only vLLM needs to know."""

    max_adapters: NonNegativeInt = 16
    """Most adapters kept loaded; 0 leaves LoRA out, which makes full-parameter sampling faster."""
    max_adapters_at_once: PositiveInt = 4
    """Most adapters in one step."""
    max_adapter_rank: Literal[8, 16, 32, 64, 128, 256, 320, 512] = 64
    """Largest rank of an adapter; room for it is taken at the start."""
    gpu_memory_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of the GPU's memory that vLLM takes; less of it leaves room for a trainer on the same GPU."""
    sleep: Sleep = "never"
    """`while_training`: vLLM lends its memory to the full-parameter model that this worker trains,
    whenever that has something to do, and they take turns. `never`: both have to fit."""


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
    """Where policies and checkpoints lie: a folder or any fsspec URL, the same for all workers, as
    samplers read what trainers write."""
    roles: Roles = frozenset({"sampler", "trainer"})
    """What the worker does: `sampler`, `trainer`, or both, with a comma between them."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the weights, the same for all workers of a run; where all weights are trained they are float32,
    and this is what is computed in."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, …; `auto` takes a GPU if there is one."""
    devices: PositiveInt = 1
    """How many devices of this machine each model is spread over while it is trained (FSDP2, a process for
    each); with more than one, the worker trains one model at a time."""
    engine: EngineName = "auto"
    """What samples: `vllm`, `transformers`, or `auto`: vLLM where it can run the model."""
    on_new_weights: OnNewWeights = "keep"
    """What turns in flight do when their policy is updated: `keep` (go on, with what is cached),
    `recompute` (go on, with the cache computed anew) or `drain` (finish first, while newcomers wait)."""
    vllm: VllmSettings = VllmSettings()
    n_threads: PositiveInt = 1
    """CPU threads of each child process; more than 1 helps large models only."""
    seed: NonNegativeInt | None = None
    """Of the sampler's random numbers. Each sampler draws one where none is given, lest two of them that
    begin with the same turns answer alike."""
    max_batch: Annotated[int, Field(gt=0, le=MAX_PREFETCH)] = 256
    """Most sequences that one sampler decodes at once."""
    max_batch_tokens: PositiveInt = 262_144
    """Most cached tokens at once, padding included."""
    max_models: PositiveInt = 16
    """Most LoRA models that the trainer holds at once; a full-parameter one has it to itself."""
    resident_models: PositiveInt = 8
    """LoRA models that stay in memory; those that were idle for longest are parked on disk."""
    micro_batch_tokens: PositiveInt = 16_384
    """Most tokens, padding included, of one forward pass of the trainer: fewer need less memory."""
    checkpoint_activations: bool = False
    """Compute activations again in the backward pass: less memory, a third more work."""
    policy_memory_bytes: PositiveInt = 8 * 1024**3
    """Weights of policies kept loaded beside the base model; the least recently used one goes."""
    hang_s: PositiveFloat = 300.0
    """A child process that holds work and says nothing for so many seconds is killed; a trainer that
    moves files has longer, by their bytes."""
    log_dir: Path | None = None
    """Folder for the output of the child processes; it comes with the worker's own if not given."""

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
        elif self.devices > 1:
            obstacle = f"each model is spread over {self.devices} devices, and vLLM has one of them"
        else:
            return self
        raise ValueError(
            "vllm.sleep is while_training, for a sampler and a trainer that share one GPU, and"
            f" {obstacle}"
        )

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
    adapters: dict[str, str] = Field(default_factory=dict)
    """Adapters that training may start with: name -> folder in peft's format, or its fsspec URL."""
