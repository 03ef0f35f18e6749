"""Packages that only some people want, and a clear word where one is missing."""

from importlib.util import find_spec

from warren.errors import ConfigurationError
from warren.version import install_extra


def require(package: str, purpose: str) -> None:
    """Raises `ConfigurationError` where the package is not installed."""
    if find_spec(package) is None:
        raise ConfigurationError(
            f"{purpose} needs the Python package {package}, which is not installed",
            hint=f"Install it with: {install_extra('notebook')}",
        )
