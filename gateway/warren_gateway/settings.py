"""Settings of one gateway; every path and URL it uses comes from here."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from warren_gateway.defaults import HOST, PORT, warren_home
from warren_schemas.base import Frozen


def _in_home(name: str, scheme: str = "") -> Any:
    """A default below `home`, which is validated before it."""

    def path(data: dict[str, Any]) -> str:
        return f"{scheme}{data['home'] / name}"

    return Field(default_factory=path, validate_default=True)


def _with_driver(url: str) -> str:
    """A bare PostgreSQL URL means psycopg, the driver that is installed."""
    scheme, _, rest = url.partition("://")
    return f"postgresql+psycopg://{rest}" if scheme in ("postgres", "postgresql") else url


StoreUrl = Annotated[str, Field(repr=False, pattern="^[a-z0-9+]+://"), AfterValidator(_with_driver)]


class GatewaySettings(Frozen):
    home: Path = Field(default_factory=warren_home)
    """Folder of everything that the gateway keeps on disk."""
    host: str = HOST
    """Address to listen at; `0.0.0.0` for every interface."""
    port: Annotated[int, Field(ge=1, le=65535)] = PORT
    store_url: StoreUrl = _in_home("warren.db", "sqlite:///")
    """SQLAlchemy URL; a bare `postgresql://` uses psycopg."""
    runs_dir: Path = _in_home("runs")
    """TensorBoard files and metrics of each run, in a folder named after it."""
    api_key: Annotated[str, Field(repr=False)] | None = None
    """Adopted as a key of the owner `local`; None: the one in `<home>/api-key`, made if missing."""

    @property
    def key_file(self) -> Path:
        return self.home / "api-key"
