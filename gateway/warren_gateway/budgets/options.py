"""The sizes of a gateway's budgets, as options: each sentence is the option's help."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen

_Count = Annotated[int, Field(ge=1, le=1_000_000)]


class BudgetOptions(Frozen):
    requests_per_s_per_owner: Annotated[float, Field(ge=0.01, le=1_000_000)] = 2000.0
    """Requests per second of one user, sustained; more than a gateway on two cores can answer."""
    request_burst_per_owner: _Count = 20_000
    """Requests that one user may send at once: two for each sample of a batch, by several of Tinker's clients."""
    wrong_keys_per_s_per_address: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """Wrong API keys per second from one address, sustained; valid keys always pass."""
    wrong_key_burst_per_address: _Count = 60
    """Wrong API keys that one address may send at once."""
    runs_queued_per_owner: _Count = 2000
    """Runs of one user that wait for their start."""
    runs_running_per_owner: _Count = 1000
    """Runs of one user that are at work at once; others wait in the queue."""
    evaluated_models_per_hour_per_owner: _Count = 20
    """Base models that GPU workers load in an hour for one user's evaluations alone (`--may-load`)."""
    episodes_in_flight_per_owner: _Count = 100_000
    """Episodes of one user's runs that are played at once."""
    stored_gib_per_owner: Annotated[float, Field(gt=0, le=1e9)] = 10_000.0
    """GiB of checkpoints, policies, data sets and adapters of one user; at the limit, further runs are refused."""
    streams_per_owner: _Count = 128
    """Streams of events, followed metrics and trajectories that one user may have open."""
    streams: Annotated[int, Field(ge=1, le=900)] = 512
    """Streams of events, followed metrics and trajectories of all users together; each takes a channel or two of a
    connection to RabbitMQ, which has 2,047."""
    answers_per_owner: _Count = 16_384
    """Answers of samplers that one user may wait for: a chat with `n: 8` waits for 8, and a batch of 256 prompts with 16
    samples of each for 4,096."""
    answers: _Count = 65_536
    """Answers of samplers that all users together may wait for."""
    env_workers_per_owner: _Count = 32
    """Remote env workers that one user may connect."""
    env_workers: _Count = 64
    """Remote env workers of all users together."""
    env_queues_per_owner: _Count = 512
    """Queues that one user's remote env workers may have at the broker, two for each environment, and one more for
    each environment of each worker; those of environments stay for an hour."""
    env_queues: _Count = 2048
    """Queues of all users' remote env workers together."""
    dead_letters_per_owner: _Count = 200
    """Dead letters kept for one user; beyond it, the oldest are dropped."""
    dead_letter_mib_per_owner: _Count = 16
    """MiB of them."""
