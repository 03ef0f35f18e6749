"""Every queue, home, stream and topic of Warren, in one place.

start_episode  gateway      -> interact.<environment>       any env worker of the deployment
               gateway      -> owned.<owner>.interact.<environment>   the owner's own ones
generate       env worker   -> generate.<base model>        any sampler; gateways ask there, too
               env worker   -> turns.<worker>.<base model>  the sampler that took the turn before;
                               falls back to generate.<base model>, where it puts what is too much
step           sampler      -> home.<worker>.<environment>  the episode's env worker;
                               falls back to interact.<environment> when it is gone
               (an owner's own: owned.<owner>.home.<worker>.<environment>, likewise)
episode_ended  any          -> trajectories.<run>           stream; the run's coordinator
score_group    gateway      -> compare.<environment>        any env worker of the deployment
               gateway      -> owned.<owner>.compare.<environment>   the owner's own ones
group_scored   env worker   -> results.<model>              the run's coordinator
job            gateway      -> jobs.<kind>.<base model>     a trainer that has room (kind: lora or full, of
                               several GPUs lora-4 or full-4)
job_taken      trainer      -> results.<model>              the run's coordinator
open_model     gateway      -> trainer.<worker>             the trainer that took the job
keep_for_job   gateway      -> trainer.<worker>             a trainer that is kept for a job
load_base_model gateway     -> trainer.<worker>             an idle GPU worker that may load it
close_model    gateway      -> trainer.<worker>             the trainer with the lease
delete_model   gateway      -> file-cleanup               any trainer
op             gateway      -> train.<model>.<epoch>        the trainer with the lease
op_result      trainer      -> results.<model>              the run's coordinator
run_event      gateway      -> events.<run>                 stream; people and TensorBoard
run_logged     any          -> logs.<run>                   stream; people
heartbeat      workers      -> topic workers                gateways
heartbeats_requested        -> topic heartbeat-requests     workers, from a gateway that starts
drain_worker   gateway      -> topic heartbeat-requests     the worker that it names
policy_published            -> topic policies               samplers
run_ended      gateway      -> topic runs                   workers
run_changed    gateway      -> topic run-changes            the gateway that drives the run
requests_answered           -> topic model-answers          the gateways where its client may wait
episode_cancelled           -> topic cancellations          samplers, env workers
(dead letters)              -> dead                         people
"""

import hashlib
import re
from dataclasses import dataclass

DELIVERY_LIMIT = 20
"""A message that was handed out this often without an ack is poison and goes to `dead`."""
MAX_MESSAGES = 100_000
"""A queue that holds this many holds its publishers back; `dead` drops its oldest instead."""
ORDERS_EXPIRE_S = 120.0
IDLE_S = 3600.0
"""How long the queue of an environment that nobody hosts any more is kept. Its coordinators have noticed
long before that no worker is there, and start what it held anew when one comes, see `Group.excuse`."""
MAX_AGE_S = 7 * 24 * 3600.0
MAX_SIZE_BYTES = 2_000_000_000
"""What a stream keeps at least of its newest messages, unless it is told otherwise."""
LOG_SIZE_BYTES = 16_000_000
"""What is kept of a run's log at least, and about twice that at most."""
HOME_GRACE_S = 2.0
"""How long the messages of a home wait for its worker before they fall back."""
HOME_EXPIRES_S = 240.0
"""A home without a consumer is deleted after this time, with whatever has not fallen back by then. RabbitMQ
starts to dead-letter while it boots, before its exchanges are there, and tries what failed then again after
180 s (`dead_letter_worker_publisher_confirm_timeout`)."""


@dataclass(frozen=True, slots=True)
class WorkQueue:
    """Durable; competing consumers; each message is worked on until one of them acks it."""

    name: str
    max_messages: int = MAX_MESSAGES
    expires_s: float | None = None
    """The broker forgets the queue, messages and all, once nobody has consumed from it for this long;
    None keeps it. Whoever consumes declares it again, nobody else does by himself."""


@dataclass(frozen=True, slots=True)
class Home:
    """A durable queue of one consumer.

    When its consumer is gone for `grace_s`, its messages, the unacknowledged ones too, move to
    `fallback`, and publishing to it is `Unroutable` once it has been forgotten.
    """

    name: str
    fallback: WorkQueue
    grace_s: float = HOME_GRACE_S
    max_messages: int = MAX_MESSAGES
    expires_s: float = HOME_EXPIRES_S
    """A broker may keep it so long without a consumer, empty."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An append-only log that many readers read from any offset or time."""

    name: str
    max_age_s: float = MAX_AGE_S
    max_size_bytes: int = MAX_SIZE_BYTES


@dataclass(frozen=True, slots=True)
class Topic:
    """Fan-out to whoever listens at the moment; nothing is kept."""

    name: str


Address = WorkQueue | Home | Stream | Topic

DEAD = WorkQueue("dead")
FILE_CLEANUP = WorkQueue("file-cleanup")
"""What any trainer may do, because all of them have the same checkpoints."""
WORKERS = Topic("workers")
HEARTBEAT_REQUESTS = Topic("heartbeat-requests")
POLICIES = Topic("policies")
RUNS = Topic("runs")
RUN_CHANGES = Topic("run-changes")
MODEL_ANSWERS = Topic("model-answers")
CANCELLATIONS = Topic("cancellations")


_READABLE = re.compile(r"[A-Za-z0-9_-]{1,32}")


def owned(owner: str) -> str:
    """What the names of all that one owner's own env workers take from begin with.

    No two owners share one, whatever they are called; every prefix is short enough for RabbitMQ.
    """
    if not _READABLE.fullmatch(owner):
        owner = "~" + hashlib.blake2b(owner.encode(), digest_size=12).hexdigest()
    return f"owned.{owner}."


def interact(environment: str, owner: str | None = None) -> WorkQueue:
    """Of the deployment's env workers, or of those that this owner connected."""
    name = f"{owned(owner) if owner else ''}interact.{environment}"
    return WorkQueue(name, expires_s=IDLE_S)


def compare(environment: str, owner: str | None = None) -> WorkQueue:
    """Of the same workers: groups whose members are compared, which takes long and holds up no episode."""
    name = f"{owned(owner) if owner else ''}compare.{environment}"
    return WorkQueue(name, expires_s=IDLE_S)


def generate(base_model: str) -> WorkQueue:
    return WorkQueue(f"generate.{base_model}")


def sampler_home(worker: str, base_model: str) -> Home:
    """Where a sampler gets the next turns of episodes whose transcripts it has cached."""
    return Home(f"turns.{worker}.{base_model}", fallback=generate(base_model))


def is_sampler_home(address: Address, base_model: str) -> bool:
    """Of whichever sampler."""
    worker = address.name.removeprefix("turns.").removesuffix(f".{base_model}")
    return address == sampler_home(worker, base_model)


def home(worker: str, environment: str, owner: str | None = None) -> Home:
    """One home for each environment that a worker hosts, so that each can fall back to its own."""
    name = f"{owned(owner) if owner else ''}home.{worker}.{environment}"
    return Home(name, fallback=interact(environment, owner))


def trajectories(
    run: str, *, max_age_s: float = MAX_AGE_S, max_size_bytes: int = MAX_SIZE_BYTES
) -> Stream:
    """Whoever declares or reads it must give the run's own limits; whoever publishes need not."""
    return Stream(f"trajectories.{run}", max_age_s, max_size_bytes)


def run_events(run: str) -> Stream:
    return Stream(f"events.{run}")


def run_log(run: str) -> Stream:
    return Stream(f"logs.{run}", max_size_bytes=LOG_SIZE_BYTES)


def jobs(base_model: str, *, is_full: bool, n_gpus: int = 1) -> WorkQueue:
    """Models that want a trainer with so many GPUs: adapters beside others, or one that takes a whole worker."""
    kind = "full" if is_full else "lora"
    return WorkQueue(f"jobs.{kind if n_gpus == 1 else f'{kind}-{n_gpus}'}.{base_model}")


def trainer(worker: str) -> WorkQueue:
    """Orders to one trainer; they mean nothing to anybody else once its leases are over."""
    return WorkQueue(f"trainer.{worker}", expires_s=ORDERS_EXPIRE_S)


def train(model: str, epoch: int) -> WorkQueue:
    return WorkQueue(f"train.{model}.{epoch}")


def goes_with_its_run(address: Address) -> bool:
    """A coordinator makes it and deletes it; nobody else does."""
    return isinstance(address, Stream) or address.name.startswith("results.")


def results(model: str) -> WorkQueue:
    return WorkQueue(f"results.{model}")
