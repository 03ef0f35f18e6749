"""The part of the client that concerns what users upload."""

from warren.adapters.handle import Adapters
from warren.base_models.handle import BaseModels
from warren.datasets.handle import Datasets
from warren.trainable.creating import Client as ModelClient


class Client(ModelClient):
    """`warren.Client` is one."""

    @property
    def datasets(self) -> Datasets:
        """Data sets: upload, find, delete."""
        return Datasets(self._transport)

    @property
    def adapters(self) -> Adapters:
        """LoRA adapters of yours: upload, find, download, share, delete."""
        return Adapters(self._transport)

    @property
    def base_models(self) -> BaseModels:
        """Base models of yours: upload, find, download, share, delete."""
        return BaseModels(self._transport)
