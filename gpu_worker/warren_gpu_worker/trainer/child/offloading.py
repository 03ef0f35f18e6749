# pyright: reportUnknownMemberType=false
"""Idle models are offloaded: their tensors go elsewhere and come back when an op needs them.

Adapters go to a file. It has no name, so nothing is left behind when the process dies, and as long
as the machine has memory to spare the kernel keeps it there. A full-parameter model, which leaves
the device when a sampler is to have it, goes to the host's memory.

Invariants: a model that comes back has the same bits; an adapter that can't be offloaded stays where it
is; a return that failed half-way is completed by the next one, less what the model has dropped since.
"""

import logging
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import IO, cast

import torch
from torch import Tensor, UntypedStorage

from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.ids import ModelId
from warren_schemas.training import is_full

log = logging.getLogger(__name__)


class Offloading:
    """Keeps the tensors of at most `n_resident` LoRA models in memory, the ones used last."""

    def __init__(self, n_resident: int) -> None:
        self._n_resident = n_resident
        self._resident: OrderedDict[ModelId, TrainableModel] = OrderedDict()
        self._offloaded: dict[ModelId, IO[bytes]] = {}
        self._off_device: dict[ModelId, list[tuple[UntypedStorage, UntypedStorage]]] = {}
        """What a full-parameter model's tensors lie in, and what lies there, on the host."""
        weakref.finalize(self, _close_all, self._offloaded)

    @property
    def offloaded(self) -> frozenset[ModelId]:
        return frozenset(self._offloaded)

    def use(self, model_id: ModelId, model: TrainableModel) -> None:
        """Have the model in memory, and offload others that were idle for longer.

        Raises `OSError` when the model's file can't be read, and what torch raises when there is no
        memory.
        """
        if (pairs := self._off_device.get(model_id)) is not None:
            for storage, values in pairs:
                _refill(storage, values)
            del self._off_device[model_id]
        if is_full(model.spec):
            return
        if (file := self._offloaded.get(model_id)) is not None:
            _fetch(file, _tensors(model))
            self.forget_model(model_id)
        self._resident[model_id] = model
        self._resident.move_to_end(model_id)
        for idle_id in list(self._resident)[: -self._n_resident]:
            self._offload(idle_id)

    def leave_device(self, model_id: ModelId, model: TrainableModel) -> None:
        """Have the host keep a full-parameter model until it is used; others stay."""
        if not is_full(model.spec):
            return
        if model_id not in self._off_device:
            every = [tensor.untyped_storage() for tensor in _tensors(model).values()]
            storages = {storage.data_ptr(): storage for storage in every if storage.resizable()}
            pairs = [(s, UntypedStorage(s.nbytes()).copy_(s)) for s in storages.values()]
            self._off_device[model_id] = pairs
        for storage, _ in self._off_device[model_id]:
            storage.resize_(0)

    def _offload(self, model_id: ModelId) -> None:
        """A model that can't go now stays; it is tried again with the next op."""
        try:
            file = _store(_tensors(self._resident[model_id]))
        except (OSError, RuntimeError) as error:  # torch says of a full disk the latter
            log.warning("%s stays in memory, it can't be offloaded: %s", model_id, error)
            return
        if file is not None:
            self._offloaded[model_id] = file
            del self._resident[model_id]

    def forget_model(self, model_id: ModelId) -> None:
        """The model is closed."""
        self._resident.pop(model_id, None)
        self._off_device.pop(model_id, None)
        if (file := self._offloaded.pop(model_id, None)) is not None:
            file.close()


def _close_all(files: dict[ModelId, IO[bytes]]) -> None:
    for file in files.values():
        file.close()


def _tensors(model: TrainableModel) -> dict[str, Tensor]:
    """All that is the model's own."""
    found: dict[str, Tensor] = {}
    for name, parameter in model.parameters.items():
        found[f"{name}/weights"] = parameter.data
        if parameter.grad is not None:
            found[f"{name}/gradient"] = parameter.grad
        state = cast("dict[str, Tensor]", model.optimizer.state.get(parameter, {}))
        found |= {f"{name}/optimizer/{key}": tensor for key, tensor in state.items()}
        if model.reference is not None and name in model.reference:
            found[f"{name}/reference"] = model.reference[name]
    return found


def _store(tensors: Mapping[str, Tensor]) -> IO[bytes] | None:
    """Write the tensors and give their memory back; whoever shares it shares the way back.

    None where somebody else (numpy) has a hand on the memory.
    """
    if not all(tensor.untyped_storage().resizable() for tensor in tensors.values()):
        return None
    file = tempfile.TemporaryFile()  # noqa: SIM115 (it outlives this function)
    try:
        torch.save({name: tensor.cpu() for name, tensor in tensors.items()}, file)
        file.flush()
    except BaseException:
        file.close()
        raise
    for tensor in tensors.values():
        tensor.untyped_storage().resize_(0)
    return file


def _fetch(file: IO[bytes], tensors: Mapping[str, Tensor]) -> None:
    """Fill these tensors again; the file may have more."""
    file.seek(0)
    saved = cast("dict[str, Tensor]", torch.load(file, weights_only=True))
    for name, tensor in tensors.items():
        values = saved[name]
        tensor.untyped_storage().resize_(values.untyped_storage().nbytes())
        tensor.copy_(values)


def _refill(storage: UntypedStorage, values: UntypedStorage) -> None:
    storage.resize_(values.nbytes())
    storage.copy_(values)
