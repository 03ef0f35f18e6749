"""What Tinker's clients send as JSON. Fields that are not here are passed over."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, RootModel
from pydantic_core import to_json

from warren_schemas.base import Frozen, Listed
from warren_schemas.config.numbers import NonNegativeInt, PositiveInt, WholeNumber

MAX_ID = 256

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID)]
AccessToken = Annotated[str, Field(max_length=4096)]
"""Of another account's checkpoints; refused, for there are none here."""
MOST_METADATA_BYTES = 16 * 1024


def _small(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if (n := len(to_json(metadata))) > MOST_METADATA_BYTES:
        raise ValueError(f"{n} bytes as JSON, and {MOST_METADATA_BYTES} are the most")
    return metadata


Metadata = Annotated[dict[str, JsonValue], AfterValidator(_small)]


class Lenient(Frozen):
    """Of a client that may be newer than we are."""

    model_config = ConfigDict(extra="ignore")


class Anything(Lenient):
    """A body of which nothing is read."""


class OpAsked(Frozen):
    """An op of a model, whatever it is: only which one it is must be right, for its number may not be lost.

    What is wrong with the rest is told by its future.
    """

    model_config = ConfigDict(extra="allow")

    model_id: Id
    seq_id: NonNegativeInt


class CreateSession(Lenient):
    tags: Annotated[Listed[Annotated[str, Field(max_length=256)]], Field(max_length=64)] = ()
    user_metadata: Metadata | None = None
    sdk_version: Annotated[str, Field(max_length=64)] = ""
    project_id: Annotated[str, Field(max_length=256)] | None = None
    display_name: Annotated[str, Field(max_length=256)] | None = None


class SessionNamed(Lenient):
    session_id: Id


class SessionEnd(Lenient):
    type: Annotated[str, Field(max_length=64)] = "success"


class FinishSession(Lenient):
    reason: SessionEnd = SessionEnd()


class CreateSamplingSession(Lenient):
    session_id: Id
    sampling_session_seq_id: NonNegativeInt
    base_model: Id | None = None
    model_path: Id | None = None


class Chunk(Lenient):
    """A part of a prompt."""

    type: str
    tokens: Listed[Annotated[int, Field(ge=0, lt=1 << 31)]] = ()
    data: str = ""
    """An image's file, in base64."""
    location: str = ""
    """Where an image lies."""
    expected_tokens: NonNegativeInt | None = None
    """So many the client expects an image to have."""


class Prompt(Lenient):
    chunks: Listed[Chunk]


class SampleParams(Lenient):
    max_tokens: PositiveInt | None = None
    seed: WholeNumber | None = None
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_k: WholeNumber = -1
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    stop: str | Listed[str] | Listed[WholeNumber] | None = None
    """Strings end a turn beside the model's own end; token ids end it in its place; none do where the list is empty."""


SparseIndex = Annotated[int, Field(ge=0, lt=1 << 31)]


class TargetTokens(Lenient):
    """Token ids by rows, -1 where none is meant: all of them, or those that the rows list."""

    data: Listed[Annotated[int, Field(ge=-1, lt=1 << 31)]]
    dtype: Literal["int64"]
    shape: tuple[PositiveInt, PositiveInt]
    sparse_crow_indices: Listed[SparseIndex] | None = None
    sparse_col_indices: Listed[SparseIndex] | None = None


class Sample(Lenient):
    sampling_session_id: Id
    seq_id: NonNegativeInt
    num_samples: Annotated[int, Field(ge=1, le=1024)] = 1
    prompt: Prompt
    sampling_params: SampleParams = SampleParams()
    prompt_logprobs: bool | None = False
    topk_prompt_logprobs: WholeNumber = 0
    topk_sample_logprobs: WholeNumber = 0
    prompt_alt_tokens_k: WholeNumber = 0
    prompt_logprobs_last_n: NonNegativeInt | None = None
    target_prompt_logprobs: JsonValue = None
    """`TargetTokens`, which are read where what is wrong with them can fail the future."""


class FutureNamed(Lenient):
    request_id: Id


class SamplesOf(Lenient):
    """All samples of a sampler that one of its clones has asked for."""

    sampling_session_id: Id
    cloned_sampler_id: NonNegativeInt = 0


class CompletedAsked(Lenient):
    target: SamplesOf
    prev_cursor: NonNegativeInt = 0
    """Of the answer before: its client has heard of what was done until then."""
    timeout: Annotated[float, Field(ge=0)] | None = None
    """Seconds."""


class ListAsked(Lenient):
    """Query of a list, which is told in pages."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 20
    offset: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    access_scope: Literal["owned", "accessible"] = "owned"


class ScopeAsked(Lenient):
    access_scope: Literal["owned", "accessible"] = "owned"


class LoraConfig(Lenient):
    rank: Annotated[int, Field(ge=1, le=4096)] = 32
    seed: NonNegativeInt | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class OptimizerAsked(Lenient):
    type: Annotated[str, Field(max_length=64)] = "adamw"


class CreateModelAsked(Lenient):
    session_id: Id
    model_seq_id: NonNegativeInt
    base_model: Id
    lora_config: LoraConfig | None = None
    """None: all weights are trained."""
    optimizer_config: OptimizerAsked = OptimizerAsked()
    user_metadata: Metadata | None = None


class ModelNamed(Lenient):
    model_id: Id


class LoadWeights(Lenient):
    """Into the model `model_id`, as its op `seq_id`."""

    model_id: Id
    seq_id: NonNegativeInt
    path: Id
    optimizer: bool = False
    weights_access_token: AccessToken | None = None


class LoadNew(Lenient):
    """Into a new model, which is number `model_seq_id` of the session."""

    path: Id
    session_id: Id
    model_seq_id: NonNegativeInt
    optimizer: bool = False
    base_model: Id | None = None
    optimizer_config: OptimizerAsked | None = None
    user_metadata: Metadata | None = None
    weights_access_token: AccessToken | None = None


class LoadAsked(RootModel[OpAsked | LoadNew]):
    """An op where it says which one it is; a new model otherwise."""

    root: Annotated[OpAsked | LoadNew, Field(union_mode="left_to_right")]


class AdamParams(Lenient):
    learning_rate: Annotated[float, Field(ge=0)] = 1e-4
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    eps: Annotated[float, Field(ge=0)] = 1e-12
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    grad_clip_norm: Annotated[float, Field(ge=0)] = 0.0


class OtherOptimizer(Lenient):
    type: Annotated[str, Field(max_length=64)] = ""


class SaveExternal(Lenient):
    model_id: Id
    seq_id: NonNegativeInt
    path: Id
    ttl_seconds: PositiveInt | None = None
    age_encryption_recipients: Listed[Annotated[str, Field(max_length=4096)]] | None = None


class OptimStepAsked(Lenient):
    model_id: Id
    seq_id: NonNegativeInt
    adam_params: AdamParams | None = None
    optimizer_params: OtherOptimizer | None = None


class SaveWeights(Lenient):
    model_id: Id
    seq_id: NonNegativeInt
    path: Id
    ttl_seconds: PositiveInt | None = None
    overwrite: bool = False
    user_metadata: Metadata | None = None


class SaveWeightsForSampler(Lenient):
    """Under a name, or for the sampler of this number alone."""

    model_id: Id
    seq_id: NonNegativeInt
    path: Id | None = None
    sampling_session_seq_id: NonNegativeInt | None = None
    kind: Literal["snapshot", "inflight"] = "snapshot"
    ttl_seconds: PositiveInt | None = None
    user_metadata: Metadata | None = None


class CopyWeights(Lenient):
    """Of any kind, into a training run of its own: number `model_seq_id` of a session, or one in a new session."""

    source_path: Id
    session_id: Id | None = None
    model_seq_id: NonNegativeInt | None = None
    destination_project_id: Annotated[str, Field(max_length=256)] | None = None
    """Of the new session."""
    ttl_seconds: PositiveInt | None = None
    weights_access_token: AccessToken | None = None


class DownloadAsked(Lenient):
    file: Annotated[str, Field(max_length=MAX_ID)] = ""
    """Left out: all of them."""


class PathNamed(Lenient):
    tinker_path: Id


class TtlAsked(Lenient):
    ttl_seconds: PositiveInt | None = None
