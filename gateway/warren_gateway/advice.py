"""How to start a missing worker, which depends on how this gateway's workers are started.

Invariant: what is advised can be followed where it is read: a command that it names is whole, and
starts what is missing.
"""

from typing import Protocol

from warren_schemas.base_models.names import UPLOADED, is_uploaded
from warren_schemas.control import WorkerRole


class Advice(Protocol):
    """Each is the end of a sentence, without its full stop."""

    def start(self, role: WorkerRole, offer: str) -> str:
        """What brings a worker in this role that offers a base model or an environment."""
        ...

    def more_capacity(self, base_model: str, *, is_full: bool) -> str | None:
        """What brings capacity for one more model under training; None where nothing does but waiting.

        `is_full`: one that takes a whole trainer.
        """
        ...

    def more_gpus(self, base_model: str, n_gpus: int) -> str:
        """What brings a trainer that spreads a model over so many GPUs."""
        ...


class SeparateWorkers:
    """Each worker is a command of its own, wherever the broker is in reach."""

    def start(self, role: WorkerRole, offer: str) -> str:
        if role is WorkerRole.ENVIRONMENT:
            command = "warren env-worker --env module:Class"
            return f"start one with: {command} (of an environment named {offer})"
        return f"start one with: {_worker(offer)}"

    def more_capacity(self, base_model: str, *, is_full: bool) -> str | None:
        return f"start another trainer with: {_worker(base_model)}"

    def more_gpus(self, base_model: str, n_gpus: int) -> str:
        return f"{self.start(WorkerRole.TRAINER, base_model)} --devices {n_gpus}"


def _worker(base_model: str) -> str:
    """One that has it, or that may load it."""
    if is_uploaded(base_model):
        return f"warren gpu-worker --base-model warren/tiny --may-load '{UPLOADED}*'"
    return f"warren gpu-worker --base-model {base_model}"


SEPARATE_WORKERS = SeparateWorkers()
