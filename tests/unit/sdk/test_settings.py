"""Where the client looks for the gateway and its key."""

from pathlib import Path

import pytest

import warren
from warren.errors import ConfigurationError
from warren.settings import DEFAULT_URL, find_settings


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARREN_URL", "WARREN_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))


def test_this_machines_gateway_is_the_default() -> None:
    settings = find_settings()
    assert settings.url == DEFAULT_URL
    assert settings.api_key is None
    assert "WARREN_API_KEY" in settings.key_source


def test_argument_before_environment_before_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api-key").write_text("from-file\n")
    assert find_settings().api_key == "from-file"
    monkeypatch.setenv("WARREN_API_KEY", "from-environment")
    assert find_settings().api_key == "from-environment"
    assert find_settings(api_key="from-argument").api_key == "from-argument"


def test_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_URL", "https://warren.example/base/")
    assert find_settings().url == "https://warren.example/base"
    assert find_settings("http://other:1").url == "http://other:1"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8642",
        "ftp://host",
        "http://",
        "nonsense",
        "http://[::1",
        "http://host:99999",
        "http://host:port",
        "http://one..two",
        f"http://{'x' * 64}.example",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not the address"):
        find_settings(url)
    with pytest.raises(ConfigurationError, match="not the address"):
        warren.connect(url)


@pytest.mark.parametrize("url", ["http://[::1]:1", "http://my_host", "https://bücher.example."])
def test_what_is_an_address(url: str) -> None:
    assert find_settings(url).url == url


def test_a_key_inside_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_settings("http://me:secret@host")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_what_can_be_no_key(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_settings(api_key=key)
    assert key not in str(caught.value)


def test_the_key_is_in_no_repr() -> None:
    assert "hidden" not in repr(find_settings(api_key="hidden"))


def test_an_empty_key_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "api-key").write_text("\n")
    settings = find_settings()
    assert settings.api_key is None
    assert "empty" in settings.key_source
