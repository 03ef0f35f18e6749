"""Settings of one gateway; every path and URL it uses comes from here."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from warren_gateway.defaults import HOST, PORT, warren_home
from warren_schemas.base import Frozen


def _in_home(name: str, scheme: str = "") -> Any:
    """A default below `home`, which is validated before it."""

    def path(data: dict[str, Any]) -> str:
        return f"{scheme}{data['home'] / name}"

    return Field(default_factory=path, validate_default=True)


def _store_url(url: str) -> str:
    """SQLite, or PostgreSQL by psycopg, the driver that is installed."""
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


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


Folder = Annotated[Path, AfterValidator(_absolute)]
StoreUrl = Annotated[str, Field(repr=False), AfterValidator(_store_url)]


class GatewaySettings(Frozen):
    home: Folder = Field(default_factory=warren_home, validate_default=True)
    """Folder of everything that the gateway keeps on disk."""
    store_url: StoreUrl = _in_home("warren.db", "sqlite:///")
    """SQLAlchemy URL; a bare `postgresql://` uses psycopg."""
    runs_dir: Folder = _in_home("runs")
    """TensorBoard files and metrics of each run, in a folder named after it."""
    archive_url: str = _in_home("archive", "file://")
    """fsspec URL of the folder where trajectories are archived, for runs that ask for it."""
    host: str = HOST
    """Address to listen at; `0.0.0.0` for every interface."""
    port: Annotated[int, Field(ge=1, le=65535)] = PORT
    api_key: str | None = Field(default=None, repr=False)
    """Adopted as a key of the owner `local`; None: the one in `<home>/api-key`, made if missing."""

    @property
    def key_file(self) -> Path:
        return self.home / "api-key"
