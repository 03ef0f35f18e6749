"""What is trained."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.base import Listed
from warren_schemas.config.numbers import (
    AdapterReference,
    BaseModelName,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from warren_schemas.text.written import Config


class FullUpdate(Config):
    """All weights of the model are trained."""

    kind: Literal["full"] = "full"


class LoraUpdate(Config):
    """Low-rank adapters are trained; the base weights stay frozen (Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = 16
    """Rank of the adapters."""
    alpha: PositiveFloat = 32.0
    """Adapters are scaled by alpha / rank."""
    targets: Literal["all-linear"] | Listed[str] = "all-linear"
    """Modules that get an adapter: `all-linear`, or a list of their names."""
    exclude: Listed[str] = ()
    """Names of target modules that get no adapter."""
    seed: NonNegativeInt | None = None
    """Seeds the adapter's initial weights; null uses the run's seed."""
    start_adapter: AdapterReference | None = None
    """Training starts with the weights of this adapter: one that you uploaded (`warren adapters upload`), as NAME or
    NAME@DIGEST, with `rank`, `alpha` and `targets` taken from it where you leave them out; else one that the GPU workers
    offer (`--adapter NAME=FOLDER`). Null starts from the unchanged base model."""


Update = Annotated[FullUpdate | LoraUpdate, Field(discriminator="kind")]


class ModelConfig(Config):
    """What is trained."""

    base: BaseModelName
    """Name of a base model that a GPU worker offers, for example `Qwen/Qwen3-0.6B`; or `@` and the name of one that was
    uploaded (`@mine`, `@ann/hers`, either with `@DIGEST`)."""
    update: Update = Field(default_factory=LoraUpdate)
    """What is trained; `lora` is the default."""
    gpus: PositiveInt = 1
    """Number of GPUs that the trainer must have, at least (`warren gpu-worker --devices`); it spreads the model
    over all of its own."""
    deterministic: bool = False
    """Never share batches with other models on the same GPU worker, so that the same data gives
    bit-identical weights. LoRA models that share batches train faster."""
