"""Checkpoints: everything that a trainer must know to go on as if nothing had happened.

A checkpoint is a sealed folder (see `sealed_folder`), written through to the disk:

model.safetensors, config.json (full) or      the policy files, so that transformers and peft can
adapter_model.safetensors, adapter_config.json          load a checkpoint as well
critic.safetensors              where the model has one
optimizer.safetensors           `<parameter>/<step, exp_avg, exp_avg_sq, gradient or reference>`
state.json                                    `SavedState`

The gradient is there when ops of the window were applied before the save, the reference when one
was kept. Random numbers need no
state of their own: those of an op are a function of the model's seed and the op's number.

Layout: <checkpoint_url>/<model>/states/<name>/ and <checkpoint_url>/<model>/policies/v<version>/.
A critic that a checkpoint lacks begins anew, and one that a model lacks is left out.
Nothing of a model changes before the whole checkpoint was read and found fitting.
"""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from pydantic import JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
    save_file,  # pyright: ignore[reportUnknownVariableType]
)
from torch import Tensor

from warren_gpu_worker.atomic_folder import (
    FolderUnreadable,
    delete_folder,
    join_url,
    list_folders,
    open_folder,
    write_folder,
)
from warren_gpu_worker.file_progress import Progress, folder_bytes, unheard
from warren_gpu_worker.trainer.errors import CheckpointError
from warren_gpu_worker.trainer.training.critic import is_critic
from warren_gpu_worker.trainer.training.sharding import shard_like, whole_on_first
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_gpu_worker.weights import PolicyView, read_policy_files, write_policy_files
from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.ids import ModelId
from warren_schemas.text.explain import explain
from warren_schemas.training import ModelSpec, checkpoint_order

_STATE, _OPTIMIZER, _CRITIC = "state.json", "optimizer.safetensors", "critic.safetensors"
_GRADIENT, _REFERENCE = "gradient", "reference"
_NOT_ADOPTED = (f"/{_GRADIENT}", f"/{_REFERENCE}")

log = logging.getLogger(__name__)


class SavedState(Frozen):
    """`state.json`."""

    format: Literal[1] = 1
    model: ModelId
    spec: ModelSpec
    version: NonNegativeInt
    last_op: NonNegativeInt
    n_backward: NonNegativeInt
    window_failure: str | None
    note: dict[str, JsonValue] | None = None


def states_url(checkpoint_url: str, model: ModelId) -> str:
    return join_url(checkpoint_url, model, "states")


def policies_url(checkpoint_url: str, model: ModelId) -> str:
    return join_url(checkpoint_url, model, "policies")


def save_checkpoint(
    url: str,
    model_id: ModelId,
    model: TrainableModel,
    note: dict[str, JsonValue] | None = None,
    progress: Progress = unheard,
) -> int:
    """Write the model's whole state to `url`; the size in bytes. Raises `OSError`."""
    state = SavedState(
        model=model_id,
        spec=model.spec,
        version=model.version,
        last_op=model.last_op,
        n_backward=model.n_backward,
        window_failure=model.window_failure,
        note=note,
    )

    ranks = model.network.ranks
    policy, optimizer = whole_policy(model), whole_on_first(_optimizer_tensors(model), ranks)
    critic = whole_on_first({n: p.data for n, p in model.critic_parameters.items()}, ranks)

    def write(folder: Path) -> None:
        write_policy_files(policy, folder, progress)
        progress(sum(tensor.nbytes for tensor in (*optimizer.values(), *critic.values())))
        save_file({name: t.contiguous() for name, t in optimizer.items()}, folder / _OPTIMIZER)
        if critic:
            save_file(critic, folder / _CRITIC)
        (folder / _STATE).write_text(state.model_dump_json(indent=2))

    return ranks.by_first(lambda: write_folder(url, write, durable=True, progress=progress))


def whole_policy(model: TrainableModel) -> PolicyView:
    """The policy for the first rank to write; all ranks must ask."""
    tensors = whole_on_first(model.policy.tensors, model.network.ranks)
    return replace(model.policy, tensors=tensors)


def forget_older(
    states: str, newest: str, keep: Collection[str], progress: Progress = unheard
) -> None:
    """Delete the checkpoints that are older than `newest`, but for those to keep.

    What can't be deleted now stays until it is asked for again.
    """
    for name in list_folders(states):
        if checkpoint_order(name) < checkpoint_order(newest) and name not in keep:
            progress()
            try:
                delete_folder(join_url(states, name))
            except Exception as error:  # noqa: BLE001 - a store's own errors
                log.warning("checkpoint %s can't be deleted now: %s", name, error)


def load_checkpoint(
    url: str, model_id: ModelId, model: TrainableModel, progress: Progress = unheard
) -> dict[str, JsonValue] | None:
    """Put the state at `url` into a model that was just made from its spec; the checkpoint's note.

    A checkpoint of the same model also gives the number of the last op; one of another model is a
    starting point, so ops count from 1. Raises `CheckpointError`, `OSError`.
    """
    state, weights, optimizer = _read(url, model, progress)
    _restore_weights(model, weights)
    _restore_optimizer(model, optimizer)
    model.version = state.version
    model.last_op = state.last_op if state.model == model_id else 0
    model.n_backward = state.n_backward
    model.window_failure = state.window_failure
    return state.note


def adopt_checkpoint(
    url: str, model: TrainableModel, *, optimizer: bool, progress: Progress = unheard
) -> None:
    """Give a model that is under training the weights at `url`, and its optimizer or a fresh one.

    It keeps its own op numbers and its reference, and begins a new window and a new version.
    Raises `CheckpointError`, `OSError`; then nothing has changed.
    """
    _, weights, saved = _read(url, model, progress)
    _restore_weights(model, weights)
    model.drop_gradient()
    model.optimizer.state.clear()
    if optimizer:
        moments = {k: v for k, v in saved.items() if not k.endswith(_NOT_ADOPTED)}
        _restore_optimizer(model, moments)
    model.version += 1


def _read(
    url: str, model: TrainableModel, progress: Progress
) -> tuple[SavedState, dict[str, Tensor], dict[str, Tensor]]:
    """State, weights and the optimizer's tensors, found fitting by all ranks."""
    return model.network.ranks.all_or_none(lambda: _read_here(url, model, progress))


def _read_here(
    url: str, model: TrainableModel, progress: Progress
) -> tuple[SavedState, dict[str, Tensor], dict[str, Tensor]]:
    try:
        with open_folder(url, progress) as folder:
            progress(folder_bytes(folder))  # mapped now, and read while the model takes it over
            state = _read_state(url, folder)
            _check_spec(url, state.spec, model.spec)
            weights = read_policy_files(url, folder).tensors
            optimizer = load_file(folder / _OPTIMIZER)
            if model.network.critic is not None and (folder / _CRITIC).exists():
                weights |= load_file(folder / _CRITIC)
    except (FolderUnreadable, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {error}") from error
    _check_weights(url, model, weights)
    return state, weights, optimizer


def _read_state(url: str, folder: Path) -> SavedState:
    try:
        return SavedState.model_validate_json((folder / _STATE).read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{url} is no checkpoint: {_STATE} is missing") from error
    except ValidationError as error:
        raise CheckpointError(f"{url}: {_STATE}: {'; '.join(explain(error))}") from error


def _check_spec(url: str, saved: ModelSpec, wanted: ModelSpec) -> None:
    if (saved.base_model, saved.update) != (wanted.base_model, wanted.update):
        raise CheckpointError(
            f"{url} is of another model: {_describe(saved)}, not {_describe(wanted)}"
        )


def _describe(spec: ModelSpec) -> str:
    return f"{spec.base_model} with {spec.update.model_dump_json()}"


def _check_weights(url: str, model: TrainableModel, weights: dict[str, Tensor]) -> None:
    for name, own in model.policy.tensors.items():
        saved = weights.get(name)
        if saved is None or saved.shape != own.shape:
            found = "missing" if saved is None else f"of shape {tuple(saved.shape)}"
            raise CheckpointError(f"{url}: {name} is {found}, not of shape {tuple(own.shape)}")


def _optimizer_tensors(model: TrainableModel) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.parameters.items():
        for key, value in model.optimizer.state.get(parameter, {}).items():
            tensors[f"{name}/{key}"] = value
        if parameter.grad is not None:
            tensors[f"{name}/{_GRADIENT}"] = parameter.grad
    for name, tensor in (model.reference or {}).items():
        tensors[f"{name}/{_REFERENCE}"] = tensor
    return tensors


@torch.no_grad()
def _restore_weights(model: TrainableModel, weights: dict[str, Tensor]) -> None:
    for name, own in model.policy.tensors.items():
        own.copy_(shard_like(weights[name], own))
    for name, parameter in model.critic_parameters.items():
        if name in weights:
            parameter.copy_(shard_like(weights[name], parameter))


def _restore_optimizer(model: TrainableModel, tensors: dict[str, Tensor]) -> None:
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        if is_critic(name) and name not in model.parameters:
            continue
        parameter = model.parameters[name]
        part_of_value = shard_like(value, parameter) if value.dim() else value
        own = torch.empty_like(part_of_value, device=parameter.device).copy_(part_of_value)
        if part == _GRADIENT:
            parameter.grad = own
        elif part == _REFERENCE:
            model.reference = {**(model.reference or {}), name: own}
        else:
            model.optimizer.state[parameter][part] = own
