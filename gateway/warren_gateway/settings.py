"""Settings of one gateway; every path and URL it uses comes from here."""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.defaults import HOST, LEASE_S, PORT, warren_home
from warren_schemas.base import Frozen


def _in_home(name: str, scheme: str = "") -> Any:
    """A default below `home`, which is validated before it."""

    def path(data: dict[str, Any]) -> str:
        return f"{scheme}{data['home'] / name}"

    return Field(default_factory=path, validate_default=True)


def _store_url(url: str) -> str:
    """SQLite, or PostgreSQL by psycopg, the driver that is installed."""
    from sqlalchemy.engine import make_url  # 0.2 s that a help page need not wait for
    from sqlalchemy.exc import ArgumentError

    scheme, _, rest = url.partition("://")
    if scheme in ("postgres", "postgresql"):
        url = f"postgresql+psycopg://{rest}"
    elif scheme not in ("sqlite", "postgresql+psycopg"):
        raise ValueError("expected sqlite:///path or postgresql://user:password@host/database")
    try:
        make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ValueError("this URL can't be read; a password may need percent-encoding") from error
    return url


def _public_url(url: str) -> str:
    """Without a slash at its end."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("expected http://host or https://host, perhaps with a port and a path")
    if parts.username or parts.password:
        raise ValueError("it is told to clients, so it can't hold a password")
    return url.rstrip("/")


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


Folder = Annotated[Path, AfterValidator(_absolute)]
StoreUrl = Annotated[str, Field(repr=False), AfterValidator(_store_url)]


StableReinforce = Literal["refused", "ppo", "cispo", "importance_sampling"]


class GatewayOptions(Frozen):
    """What `warren up` may choose too: each sentence is the option's help."""

    home: Folder = Field(default_factory=warren_home, validate_default=True)
    """Folder for the API key, the SQLite file and the runs."""
    runs_dir: Folder = _in_home("runs")
    """Folder for TensorBoard files (default: `runs` in the home folder)."""
    archive_url: str = _in_home("archive", "file://")
    """Folder or fsspec URL for the trajectories of runs with `retention.archive` (default: `archive` in the
    home folder)."""
    datasets_url: str = _in_home("datasets", "file://")
    """Folder or fsspec URL for data sets; the same at every gateway of a store (default: `datasets` in the home
    folder)."""
    adapters_url: str = _in_home("adapters", "file://")
    """Folder or fsspec URL for adapters that users upload; the same at every gateway of a store, and read by the GPU
    workers (default: `adapters` in the home folder)."""
    models_url: str = _in_home("base-models", "file://")
    """Folder or fsspec URL for base models that users upload; the same at every gateway of a store, and read by the GPU
    workers (default: `base-models` in the home folder)."""
    uploaded_model_gib: Annotated[float, Field(ge=0, le=1024)] = 32.0
    """Most GiB of a base model that a user uploads; 0: none is taken."""
    host: str = HOST
    """Address to listen at; `0.0.0.0` for every interface."""
    port: Annotated[int, Field(ge=1, le=65535)] = PORT
    """Port to listen at."""
    public_url: Annotated[str, AfterValidator(_public_url)] | None = None
    """URL at which clients reach the gateway, where a proxy stands before it: the URLs of downloads begin with it
    (default: what the request was sent to)."""
    tinker_chunk_mb: Annotated[float, Field(ge=0.1, le=6.0)] = 5.0
    """Chunk size in MB, announced to Tinker's clients, of the training data they send. At 6 MB an op reaches its
    token limit."""
    tinker_op_mib: Annotated[int, Field(ge=8, le=64)] = 64
    """Most MiB of such a part, unpacked: the clients cut no sequence."""
    tinker_prompt_mib: Annotated[int, Field(ge=1, le=8)] = 8
    """Most MiB of a question of Tinker's clients to a sampler."""
    tinker_answer_s: Annotated[float, Field(ge=1, le=86_400)] = 1800.0
    """Seconds after which an unanswered sample of Tinker's clients is retried, with twice the time; it waits as long as
    its client stays connected."""
    tinker_stable_reinforce: StableReinforce = "refused"
    """The loss that is computed where Tinker's clients ask for stable_reinforce, whose formula is not public."""

    @property
    def key_file(self) -> Path:
        return self.home / "api-key"


class GatewaySettings(BudgetOptions, GatewayOptions):
    store_url: StoreUrl = _in_home("warren.db", "sqlite:///")
    """URL of SQLite or PostgreSQL (default: a SQLite file in the home folder)."""
    run_lease_s: Annotated[float, Field(ge=1.0, le=3600.0)] = LEASE_S
    """Time after which another gateway takes over the runs of one that does not answer, in seconds; the same
    at every gateway of a store."""
    api_key: str | None = Field(default=None, repr=False)
    """Adopted as a key of the owner `local`; None: the one in `<home>/api-key`, made if missing."""
