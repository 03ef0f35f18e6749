"""One tiny base model for all trainer tests."""

from tests.support.base_models import base_folder

__all__ = ["base_folder"]
