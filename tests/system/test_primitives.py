# pyright: reportUnknownMemberType=false
"""A loop of one's own through the SDK does to a model what plain torch does, for every loss."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peft import PeftModel
from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
)
from tests.support.one_process import Site, in_process, tiny_site
from torch import Tensor, nn

import warren
from warren.trainable.model import TrainableModel
from warren_gpu_worker.base_models import load_base
from warren_schemas.config import Loss

BASE = "warren/tiny"
CLOSE = 2e-4
"""Relative error: what is computed here in float64 is computed there in float32."""
OPTIMIZER = {"learning_rate": 3e-3, "beta1": 0.8, "beta2": 0.9, "eps": 0.5, "weight_decay": 0.1}
"""With so large an eps a step is a smooth function of the gradient, so that it can be compared."""

SequenceLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(logprobs, the sampler's, advantages or weights) of the tokens of a sequence that count -> its loss."""


def cross_entropy(lp: Tensor, _: Tensor, weight: Tensor) -> Tensor:
    return -(weight * lp).sum()


def importance_sampling(lp: Tensor, old: Tensor, advantage: Tensor) -> Tensor:
    return -((lp - old).exp() * advantage).sum()


def clipped(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    return -torch.min(ratio * advantage, ratio.clamp(low, high) * advantage).sum()


def ppo(lp: Tensor, old: Tensor, advantage: Tensor) -> Tensor:
    return clipped((lp - old).exp(), advantage, 0.9, 1.1)


def cispo(lp: Tensor, old: Tensor, advantage: Tensor) -> Tensor:
    return -((lp - old).exp().clamp(0.9, 1.1).detach() * lp * advantage).sum()


def dro(lp: Tensor, old: Tensor, advantage: Tensor) -> Tensor:
    return -(lp * advantage - 0.5 * 0.3 * (lp - old) ** 2).sum()


def gspo(lp: Tensor, old: Tensor, advantage: Tensor) -> Tensor:
    return clipped((lp - old).mean().exp().expand_as(lp), advantage, 0.95, 1.05)


LOSSES: dict[str, tuple[Loss, SequenceLoss]] = {
    "cross_entropy": (warren.CrossEntropyLoss(), cross_entropy),
    "importance_sampling": (warren.ImportanceSamplingLoss(), importance_sampling),
    "ppo": (warren.PpoLoss(clip_low=0.9, clip_high=1.1), ppo),
    "cispo": (warren.CispoLoss(clip_low=0.9, clip_high=1.1), cispo),
    "dro": (warren.DroLoss(beta=0.3), dro),
    "gspo": (warren.GspoLoss(clip_low=0.95, clip_high=1.05), gspo),
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return tiny_site(tmp_path, partial(in_process, tmp_path))


async def test_a_loop_of_ones_own_trains_as_plain_torch_does(site: Site) -> None:
    async with site.running(site.trainer) as client:
        lora = await client.create_model(BASE, update=warren.LoraUpdate(rank=4), seed=3)
        await train_by_every_loss(lora, partial(adapted, site.gpu.base_models[BASE]))
        await the_custom_loss_is_the_built_in_one(lora)
        await lora.close()
        full = await client.create_model(BASE, update=warren.FullUpdate())
        await train_by_every_loss(full, lambda folder: load_base(str(folder)), only="ppo")


async def train_by_every_loss(
    model: TrainableModel, load: Callable[[Path], nn.Module], *, only: str = ""
) -> None:
    """From the same weights each time; `load` makes a plain model of a checkpoint's folder."""
    texts = sequences()
    await model.forward_backward(
        [warren.Datum(ids=ids_T) for ids_T in texts], warren.CrossEntropyLoss()
    )
    await model.optim_step(1e-2)  # an adapter that was just made has no effect
    start = await folder_of(model, "start")
    sampled = await (await model.forward([warren.Datum(ids=ids_T) for ids_T in texts]))
    assert sampled.logprobs is not None
    for name, (loss, reference) in LOSSES.items():
        if only not in (name, ""):
            continue
        data = data_of(texts, sampled.logprobs, is_supervised=name == "cross_entropy")
        await model.load_state("start", optimizer=False)
        asked = await model.forward_backward(data, loss)
        await model.optim_step(**OPTIMIZER)
        end = await folder_of(model, name)
        plain = load(start)
        value, logprobs = trained_plainly(plain, data, reference)
        done = await asked
        assert done.metrics["loss:sum"] == pytest.approx(value, rel=CLOSE), name
        assert done.logprobs is not None
        for found_T, expected_T in zip(done.logprobs, logprobs, strict=True):
            np.testing.assert_allclose(found_T, expected_T, atol=1e-3)
        assert difference(load(end), plain, load(start)) < 100 * CLOSE, name


async def the_custom_loss_is_the_built_in_one(model: TrainableModel) -> None:
    texts = sequences()
    sampled = await (await model.forward([warren.Datum(ids=ids_T) for ids_T in texts]))
    data = data_of(texts, sampled.logprobs or (), is_supervised=False)

    def imitated(
        data: Sequence[warren.Datum], logprobs: list[NDArray[np.float32]]
    ) -> tuple[float, list[NDArray[np.float64]]]:
        loss, derivatives = 0.0, list[NDArray[np.float64]]()
        for datum, lp_T in zip(data, logprobs, strict=True):
            assert datum.logprobs is not None
            assert datum.advantages is not None
            gains_T = np.exp(lp_T - datum.logprobs) * datum.advantages
            loss -= float(gains_T.sum())
            derivatives.append(-gains_T.astype(np.float64))
        return loss, derivatives

    folders: list[Path] = []
    for name in ("built-in", "custom"):
        await model.load_state("start", optimizer=False)
        if name == "custom":
            await model.forward_backward_custom(data, imitated)
        else:
            await model.forward_backward(data, warren.ImportanceSamplingLoss())
        await model.optim_step(**OPTIMIZER)
        folders.append(await folder_of(model, name))
    built_in, custom = map(tensors_of, folders)
    for name, tensor in built_in.items():
        torch.testing.assert_close(custom[name], tensor, rtol=1e-3, atol=1e-6)


def sequences() -> list[NDArray[np.int32]]:
    rng = np.random.default_rng(5)
    return [rng.integers(3, 50, n, dtype=np.int32) for n in (9, 14, 6, 11)]


def data_of(
    texts: Sequence[NDArray[np.int32]],
    logprobs: Sequence[NDArray[np.float32]],
    *,
    is_supervised: bool,
) -> list[warren.Datum]:
    """The first three tokens are the prompt; the sampler's logprobs are those of a policy nearby."""
    rng = np.random.default_rng(6)
    data: list[warren.Datum] = []
    for ids_T, lp_T in zip(texts, logprobs, strict=True):
        weights_T = rng.normal(size=ids_T.size).astype(np.float32)
        lag_T = rng.normal(scale=0.15, size=ids_T.size)
        old_T = np.minimum(lp_T + lag_T, -1e-3).astype(np.float32)
        weights_T[:3] = old_T[:3] = 0
        if is_supervised:
            data.append(warren.Datum(ids=ids_T, weights=weights_T))
        else:
            data.append(warren.Datum(ids=ids_T, advantages=weights_T, logprobs=old_T))
    return data


def trained_plainly(
    model: nn.Module, data: Sequence[warren.Datum], loss_of: SequenceLoss
) -> tuple[float, list[NDArray[np.float64]]]:
    """One step of AdamW; the loss and the logprobs before it."""
    model.double()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained,
        lr=OPTIMIZER["learning_rate"],
        betas=(OPTIMIZER["beta1"], OPTIMIZER["beta2"]),
        eps=OPTIMIZER["eps"],
        weight_decay=OPTIMIZER["weight_decay"],
    )
    loss, logprobs = torch.zeros((), dtype=torch.float64), list[NDArray[np.float64]]()
    for datum in data:
        ids_T = torch.tensor(datum.ids.astype(np.int64))
        logits_TV = model(input_ids=ids_T[None]).logits[0, :-1]
        lp_T = logits_TV.log_softmax(-1).gather(1, ids_T[1:, None])[:, 0]
        old_T, weights_T = (
            torch.zeros(ids_T.numel(), dtype=torch.float64)
            if values_T is None
            else torch.tensor(values_T.astype(np.float64))
            for values_T in (
                datum.logprobs,
                datum.advantages if datum.weights is None else datum.weights,
            )
        )
        loss = loss + loss_of(lp_T[2:], old_T[3:], weights_T[3:])
        logprobs.append(np.concatenate([[0.0], lp_T.detach().numpy()]))
    loss.backward()
    optimizer.step()
    return loss.item(), logprobs


def difference(found: nn.Module, expected: nn.Module, start: nn.Module) -> float:
    """Of the steps that were taken from `start`: the norm of what is wrong over that of what is right."""
    names = {name for name, p in expected.named_parameters() if p.requires_grad}
    begun, right = dict(start.named_parameters()), dict(expected.named_parameters())
    wrong_step, right_step = 0.0, 0.0
    for name, parameter in found.named_parameters():
        if name in names:
            step = right[name].detach() - begun[name].detach().double()
            taken = parameter.detach().double() - begun[name].detach().double()
            wrong_step += float((taken - step).square().sum())
            right_step += float(step.square().sum())
    return (wrong_step / right_step) ** 0.5


def adapted(base: str, folder: Path) -> nn.Module:
    return cast("nn.Module", PeftModel.from_pretrained(load_base(base), folder, is_trainable=True))


async def folder_of(model: TrainableModel, name: str) -> Path:
    await (await model.save_state(name))
    kept = (await model.kept()).checkpoints
    url = next(each.url for each in kept if each.name == name)
    return Path(url.removeprefix("file://"))


def tensors_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "adapter_model.safetensors")
