"""Settings: what follows from what, and what is refused."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from warren_gateway.settings import GatewaySettings


def test_everything_lies_in_the_home(tmp_path: Path) -> None:
    settings = GatewaySettings(home=tmp_path)
    assert settings.store_url == f"sqlite:///{tmp_path}/warren.db"
    assert settings.runs_dir == tmp_path / "runs"
    assert settings.key_file == tmp_path / "api-key"
    assert (settings.host, settings.port) == ("127.0.0.1", 8642)


def test_the_home_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))
    assert GatewaySettings().home == tmp_path
    monkeypatch.delenv("WARREN_HOME")
    assert GatewaySettings().home == Path.home() / ".warren"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_means_psycopg(scheme: str) -> None:
    settings = GatewaySettings(store_url=f"{scheme}://ann:secret@db:5432/warren")
    assert settings.store_url == "postgresql+psycopg://ann:secret@db:5432/warren"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize("url", ["", "warren.db", "mysql://db/warren", "postgresql://db:port/x"])
def test_other_stores_are_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="store_url"):
        GatewaySettings(store_url=url)


@pytest.mark.parametrize("port", [0, 65536])
def test_a_port_must_be_one(port: int) -> None:
    with pytest.raises(ValidationError, match="port"):
        GatewaySettings(port=port)


def test_a_public_url_has_no_slash_at_its_end() -> None:
    settings = GatewaySettings(public_url="https://warren.example.org:8443/tinker/")
    assert settings.public_url == "https://warren.example.org:8443/tinker"


@pytest.mark.parametrize(
    "url", ["", "warren.example.org", "ftp://a", "https://", "https://a/?b", "https://ann:pw@a"]
)
def test_what_is_no_address_of_a_gateway_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="public_url"):
        GatewaySettings(public_url=url)
