"""The tasksets are answered by the tiny family."""

from tests.support.base_models import tiny_models

__all__ = ["tiny_models"]
