"""What Tinker's clients read as JSON."""

from typing import Literal

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen


class Empty(Frozen):
    """Nothing is told."""


class Detail(Frozen):
    """An error, with its HTTP status."""

    detail: str
    code: str


class TinkerHealth(Frozen):
    status: Literal["ok"] = "ok"


class ClientConfig(Frozen):
    """What the clients do on their side; what is not told they know themselves."""

    proto_compress_fwdbwd: bool = True
    """With zstd: most of a batch are zeros and small numbers in wide types."""
    sample_use_retrieve_futures: bool = True
    """A client waits for all samples of a sampler with one request, not with one for each."""
    sample_enable_stuck_detection: bool = False
    """Whether a client gives all its samples up once none has ended for 2 hours. It waits here for as long as it likes: a
    sampler may come later."""
    fwdbwd_max_chunk_bytes_count: int
    """Bytes into which a client cuts what it trains on, before it compresses them."""


class DynamicConfig(Frozen):
    sample_cancel_enabled: bool = True


class Accepted(Frozen):
    status: Literal["accepted"] = "accepted"


class SessionCreated(Frozen):
    type: Literal["create_session"] = "create_session"
    session_id: str
    info_message: str | None = None


class SessionHeartbeat(Frozen):
    type: Literal["session_heartbeat"] = "session_heartbeat"


class SupportedModel(Frozen):
    model_name: str
    trainable: bool
    sampleable: bool


class ServerCapabilities(Frozen):
    supported_models: tuple[SupportedModel, ...]


class SamplingSessionCreated(Frozen):
    type: Literal["create_sampling_session"] = "create_sampling_session"
    sampling_session_id: str


class Sampler(Frozen):
    sampler_id: str
    base_model: str
    model_path: str | None = None


class Future(Frozen):
    request_id: str
    model_id: str | None = None


class SampleFuture(Frozen):
    request_id: str
    sample_sequence_ids: tuple[str, ...]


class ResultFailed(Frozen):
    """The op had no effect."""

    error: str
    category: Literal["user", "server"]


class ResultPending(Frozen):
    """Ask again at once."""

    type: Literal["try_again"] = "try_again"
    request_id: str
    queue_state: Literal["active", "paused_capacity", "paused_rate_limit"] = "active"
    queue_state_reason: str | None = None


class SampleFinished(Frozen):
    state: Literal["finished"] = "finished"
    request_id: str
    response_payload_uncompressed_size: int
    """In bytes."""


class SampleFailed(Frozen):
    """`retrieve_future` says why."""

    state: Literal["failed"] = "failed"
    request_id: str


class SamplesCompleted(Frozen):
    """In the order in which they were done."""

    completions: tuple[SampleFinished | SampleFailed, ...]
    cursor: int


class SessionList(Frozen):
    sessions: tuple[str, ...]


class Session(Frozen):
    training_run_ids: tuple[str, ...]
    sampler_ids: tuple[str, ...]
    user_metadata: dict[str, JsonValue] | None = None
    display_name: str | None = None


class ModelData(Frozen):
    model_name: str
    arch: str | None = None
    tokenizer_id: str | None = None


class TinkerOptimizer(Frozen):
    type: Literal["adamw"] = "adamw"


class ModelInfo(Frozen):
    type: Literal["get_info"] = "get_info"
    model_id: str
    model_data: ModelData
    is_lora: bool
    lora_rank: int | None = None
    model_name: str
    optimizer_config: TinkerOptimizer = TinkerOptimizer()


class ModelCreated(Frozen):
    type: Literal["create_model"] = "create_model"
    model_id: str


class OptimStepped(Frozen):
    metrics: dict[str, float] = Field(default_factory=dict)


class StateSaved(Frozen):
    type: Literal["save_weights"] = "save_weights"
    path: str


class StateLoaded(Frozen):
    type: Literal["load_weights"] = "load_weights"
    path: str | None
    model_id: str


class WeightsCopied(Frozen):
    tinker_path: str


class WeightsPublished(Frozen):
    type: Literal["save_weights_for_sampler"] = "save_weights_for_sampler"
    path: str | None
    sampling_session_id: str | None = None


class ExternalSaved(Frozen):
    type: Literal["save_weights_external"] = "save_weights_external"
    path: str


class WeightsInfo(Frozen):
    base_model: str
    is_lora: bool
    lora_rank: int | None = None
    train_unembed: bool | None = None
    """These three: whether adapters are there; None where all weights are trained."""
    train_mlp: bool | None = None
    train_attn: bool | None = None
    optimizer_config: TinkerOptimizer = TinkerOptimizer()


class Kept(Frozen):
    """A checkpoint."""

    checkpoint_id: str
    checkpoint_type: Literal["training", "sampler", "external"]
    time: str
    tinker_path: str
    size_bytes: int
    public: bool
    user_metadata: dict[str, JsonValue] | None = None
    expires_at: str | None = None


class Cursor(Frozen):
    offset: int
    limit: int
    total_count: int


class KeptAnswer(Frozen):
    checkpoints: tuple[Kept, ...]
    cursor: Cursor | None = None


class TrainingRun(Frozen):
    training_run_id: str
    base_model: str
    model_owner: str
    is_lora: bool
    lora_rank: int | None = None
    corrupted: bool = False
    last_request_time: str
    last_checkpoint: Kept | None = None
    last_sampler_checkpoint: Kept | None = None
    user_metadata: dict[str, JsonValue] | None = None


class TrainingRuns(Frozen):
    training_runs: tuple[TrainingRun, ...]
    cursor: Cursor
