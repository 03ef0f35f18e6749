"""Settings of one GPU worker: what it offers, which roles it plays, how much it may use."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

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
    """Share of the GPU's memory for sampling; leave room where a trainer has the same GPU."""
    sleep: Sleep = "never"
    """`while_training`: the sampler lends its memory to the full-parameter model that this worker
    trains, whenever that has ops; they take turns (see `room`)."""


class GpuWorkerSettings(Frozen):
    base_models: Annotated[dict[str, str], Field(min_length=1)]
    """Name -> local folder (see `base_models.resolve_base_models`)."""
    checkpoint_url: str = Field(default_factory=default_checkpoint_url)
    """fsspec URL of the folder for policies and checkpoints; samplers read where trainers write."""
    roles: Annotated[frozenset[Role], Field(min_length=1)] = frozenset({"sampler", "trainer"})
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the weights, in samplers and trainers alike; full updates keep float32 and compute in it."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, …; `auto` takes a GPU if there is one."""
    devices: PositiveInt = 1
    """Devices that each model under training is spread over, with a process for each (FSDP2)."""
    engine: EngineName = "auto"
    """What samples: vLLM, or plain transformers. `auto` is vLLM where it can run the model."""
    on_new_weights: OnNewWeights = "keep"
    """What requests in flight do when their policy gets new weights: go on and keep what is cached,
    go on and compute it anew, or finish first while newcomers wait."""
    vllm: VllmSettings = VllmSettings()
    n_threads: PositiveInt = 1
    """CPU threads of each child process."""
    seed: NonNegativeInt | None = None
    """Of the sampler's random numbers. None: each sampler draws one, lest two of them that begin with
    the same turns answer alike."""
    max_batch: Annotated[int, Field(gt=0, le=MAX_PREFETCH)] = 256
    """Most sequences that one sampler decodes at once."""
    max_batch_tokens: PositiveInt = 262_144
    """Most cached tokens at once, padding included."""
    max_models: PositiveInt = 16
    """Most LoRA models that the trainer holds at once; a full-parameter one has it to itself."""
    resident_models: PositiveInt = 8
    """LoRA models that stay in memory; those that were idle for longest are parked on disk."""
    micro_batch_tokens: PositiveInt = 16_384
    """Most tokens, padding included, of one forward pass of the trainer."""
    checkpoint_activations: bool = False
    """Compute activations again in the backward pass: less memory, a third more work."""
    adapters: dict[str, str] = Field(default_factory=dict)
    """Adapters that training may start with: name -> folder in peft's format, or its fsspec URL."""
    policy_memory_bytes: PositiveInt = 8 * 1024**3
    """Weights of policies kept loaded beside the base model; the least recently used one goes."""
    hang_s: PositiveFloat = 300.0
    """A child process that holds work and says nothing for this long is killed; a trainer that moves
    files has longer, by their bytes (see `progress`)."""
    log_dir: Path | None = None
    """Folder for the output of the child processes; None: where this process writes."""

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
