"""Tables. Times are Unix seconds, sizes bytes, JSON columns hold dumped schemas.

Invariants
- A change of state and the messages that announce it (rows of `outbox`) are one transaction.
- `op` is append-only: numbers of a model run 1, 2, 3 and so on, and a body never changes.
- `model.epoch` and `run.epoch` only rise; whoever acts for an older epoch is ignored.
- `run.stream_offset` is the first trajectory message that may hold an episode not yet consumed.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Column, Index, LargeBinary, UniqueConstraint
from sqlmodel import Field, SQLModel


class User(SQLModel, table=True):
    """Somebody who holds keys; the row of a removed user stays, so that nobody else gets the name and what
    belongs to it."""

    __tablename__: ClassVar[Any] = "account"  # `user` is a word of PostgreSQL's own

    name: str = Field(primary_key=True)
    is_admin: bool = False
    created_s: float
    disabled_s: float | None = None
    removed_s: float | None = None
    limits: dict[str, Any] = Field(
        default_factory=dict, sa_column=Column(JSON, nullable=False, server_default="{}")
    )
    """What an admin set for them; what is not here is as the gateway's options say."""


class ApiKey(SQLModel, table=True):
    """A key as its hash; the key itself is shown once and kept nowhere."""

    __tablename__: ClassVar[Any] = "api_key"

    id: str = Field(primary_key=True)
    """The key's public half: what a person sees in lists."""
    owner: str = Field(index=True, foreign_key="account.name")
    name: str = "key"
    hash: str
    scopes: list[str] = Field(sa_column=Column(JSON, nullable=False))
    created_s: float
    expires_s: float | None = None
    last_used_s: float | None = None
    revoked_s: float | None = None


class AuditRow(SQLModel, table=True):
    """A request that was to change something, written before it was served."""

    __tablename__: ClassVar[Any] = "audit"

    id: int | None = Field(default=None, primary_key=True)
    at_s: float
    user: str = Field(index=True)
    key: str
    action: str
    path: str
    status: int | None = None
    """What was answered; None while it is not."""


class Run(SQLModel, table=True):
    __tablename__: ClassVar[Any] = "run"
    __table_args__ = (UniqueConstraint("owner", "idempotency_key"),)

    id: str = Field(primary_key=True)
    owner: str = Field(index=True)
    name: str
    idempotency_key: str | None = None
    config: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    state: str = Field(index=True)
    phase: str | None = None
    waiting_for: str | None = None
    is_cancel_requested: bool = False
    wish: str | None = None
    """What else its owner wants of it; see `wish.Wish`."""
    submitted: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    """The config as it was submitted, where its owner has changed it since."""
    priority: int = 0
    """Runs of a higher one go first."""
    retry_of: str | None = None
    """The run that this one goes on for."""
    on_disconnect: str = "detach"
    client_lease_s: float | None = None
    """How long its client may be silent, where the run ends with its client."""
    client_until_s: float | None = None
    """On the store's clock: until when the client is taken to be there."""
    step: int = 0
    n_steps: int
    sft_step: int = 0
    reward: float | None = None
    error: str | None = None
    created_s: float = Field(index=True)
    started_s: float | None = None
    ended_s: float | None = None
    result: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    progress: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    """The coordinator's own counters; see `coordinator.state.coordinator.Progress`."""
    stream_offset: int = 0
    coordinator: str | None = None
    """Gateway that drives the run; also after its end, until its queues are gone."""
    epoch: int = 0
    """Of the coordinator's lease; see `coordinator.run_leases`."""
    leased_until_s: float = 0.0
    """On the store's clock."""
    revision: int = 0
    """Number of the newest change that was committed."""


class HistoryRow(SQLModel, table=True):
    """A state that a run entered."""

    __tablename__: ClassVar[Any] = "run_history"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(index=True, foreign_key="run.id")
    state: str
    at_s: float
    reason: str | None = None


class ShareRow(SQLModel, table=True):
    """Somebody else may read a run."""

    __tablename__: ClassVar[Any] = "share"

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    user: str = Field(primary_key=True, index=True)
    """Their name, or `*` for everybody."""
    created_s: float


class UsageRow(SQLModel, table=True):
    """What a run has used on one day; it stays when the run is deleted."""

    __tablename__: ClassVar[Any] = "usage"

    run_id: str = Field(primary_key=True)
    day: int = Field(primary_key=True)
    """Days since 1970, UTC."""
    owner: str = Field(index=True)
    training_gpu_s: float = 0.0
    sampling_gpu_s: float = 0.0
    n_tokens_trained: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    n_tokens_sampled: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    n_episodes: int = 0


class RecentUse(SQLModel, table=True):
    """GPU-seconds of a user that halve with time: by these the scheduler gives turns."""

    __tablename__: ClassVar[Any] = "recent_use"

    owner: str = Field(primary_key=True)
    gpu_s: float = 0.0
    """As it was at `at_s`."""
    at_s: float = 0.0


class Model(SQLModel, table=True):
    """A model and its lease."""

    __tablename__: ClassVar[Any] = "model"

    id: str = Field(primary_key=True)
    run_id: str = Field(index=True, foreign_key="run.id")
    base_model: str
    spec: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    is_closed: bool = False
    epoch: int = 0
    holder: str | None = None
    """Worker that holds the lease of `epoch`."""
    granted_s: float | None = None
    is_opened: bool = False
    """The holder has answered that it has the model."""
    last_op: int = 0
    """Number of the newest op in the log."""
    done_op: int = 0
    """All ops up to this one are answered."""
    version: int = 0
    policy_version: int = 0
    policy_url: str | None = None
    policies: list[tuple[int, int]] = Field(
        default_factory=list, sa_column=Column(JSON, nullable=False)
    )
    """Step and version of the newest published policies, oldest first."""
    policy_bytes: int = Field(
        default=0, sa_column=Column(BigInteger, nullable=False, server_default="0")
    )
    """Of the newest published policy."""
    checkpoint_op: int = 0
    checkpoint_url: str | None = None


class JobRow(SQLModel, table=True):
    """What a run's model needs of a trainer, and how far it is with getting one.

    `state`: `queued`, `admitted` (the scheduler lets its message go), `taken` (a trainer has the lease),
    `over`. A job whose trainer is lost is queued again.
    """

    __tablename__: ClassVar[Any] = "job"

    number: int | None = Field(default=None, primary_key=True)
    """Order of submission."""
    run_id: str = Field(unique=True, foreign_key="run.id")
    model_id: str
    owner: str
    base_model: str
    is_full: bool
    n_gpus: int = 1
    memory_bytes: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    priority: int = 0
    """Higher goes first."""
    plays_at_once: bool
    """Without samplers and its environments it could not begin."""
    environments: list[tuple[str, str]] = Field(sa_column=Column(JSON, nullable=False))
    """Name, and who must play it: an owner, or empty for the deployment."""
    state: str = Field(default="queued", index=True)
    queued_s: float
    admitted_s: float | None = None
    taken_s: float | None = None
    over_s: float | None = None
    worker: str | None = None
    is_interrupted: bool = False
    """It was admitted before, so its run has a coordinator."""
    is_held_back: bool = False
    """Its coordinator has nothing to do for a trainer now."""


class SchedulerRow(SQLModel, table=True):
    """One row: who decides has its lock."""

    __tablename__: ClassVar[Any] = "scheduler"

    id: int = Field(primary_key=True)
    reserved: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    """Workers that are kept for a model, from one decision to the next."""


class Checkpoint(SQLModel, table=True):
    """A checkpoint that is kept."""

    __tablename__: ClassVar[Any] = "checkpoint"

    model_id: str = Field(primary_key=True, foreign_key="model.id")
    name: str = Field(primary_key=True)
    op: int
    """Number of the op that saved it."""
    version: int
    step: int
    """Of reinforcement learning; 0 in SFT."""
    reward: float | None = None
    """Mean over the newest batches."""
    url: str
    size_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    created_s: float


class OpRow(SQLModel, table=True):
    __tablename__: ClassVar[Any] = "op"

    model_id: str = Field(primary_key=True, foreign_key="model.id")
    number: int = Field(primary_key=True)
    kind: str
    item_id: str = ""
    """Of the op's envelope: no other op has it, whatever its number."""
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """The op as a wire message of one item."""
    outcome: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))


class GroupRow(SQLModel, table=True):
    """A group of episodes; the id of a member is `<group>.<member>`."""

    __tablename__: ClassVar[Any] = "episode_group"
    __table_args__ = (Index("ix_group_open", "run_id", "is_open"),)

    id: str = Field(primary_key=True)
    run_id: str = Field(foreign_key="run.id")
    number: int
    purpose: str
    environment: int
    """Index into the config's environments."""
    task_index: int
    n_members: int
    min_version: int
    deadline_s: float
    is_open: bool = True
    """Some member has not ended, or the group waits to be consumed."""
    attempts: list[int] = Field(sa_column=Column(JSON, nullable=False))
    outcomes: list[dict[str, Any]] | None = Field(default=None, sa_column=Column(JSON))
    """What became of each member, written when the group is consumed."""


class MetricsRow(SQLModel, table=True):
    """What a run reported after one step or evaluation; kept as long as the run."""

    __tablename__: ClassVar[Any] = "metrics_row"

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    number: int = Field(primary_key=True)
    """1, 2, 3 and so on, in the order of the reports."""
    body: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    """The row as the API answers it."""


class OutboxRow(SQLModel, table=True):
    """A message that must reach the broker; deleted once the broker has confirmed it."""

    __tablename__: ClassVar[Any] = "outbox"

    id: int | None = Field(default=None, primary_key=True)
    address_kind: str
    address: str
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    message_id: str
    gateway: str = ""
    """Whose transaction posted it, and whose relay sends it."""
