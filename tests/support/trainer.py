# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Helpers for trainer tests: batches, specs, and a reference implementation in float64.

Legend: B sequences, N tokens of all of them laid end to end, T tokens of one.
"""

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.config import FullUpdate, LoraUpdate, Loss, PpoLoss
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import (
    CriticTerm,
    ForwardBackward,
    ModelSpec,
    OpBody,
    OpDone,
    OpFailed,
    OpOutcome,
    OptimStep,
    SaveState,
)

BASE = "warren/tiny-lora"
"""The member of the tiny family whose logits are far enough apart for adapters."""
VOCABULARY = 56
MODEL = ModelId("model_test")
FULL = ModelSpec(base_model=BASE, update=FullUpdate())
LORA = ModelSpec(base_model=BASE, update=LoraUpdate(rank=4, alpha=8.0))
SPECS = [pytest.param(FULL, id="full"), pytest.param(LORA, id="lora")]
SPECS_WITH_CRITIC = [
    pytest.param(FULL.model_copy(update={"critic": True}), id="full"),
    pytest.param(LORA.model_copy(update={"critic": True}), id="lora"),
]


def engine_for(
    base_folder: Path,
    checkpoints: Path | str,
    *,
    micro_batch_tokens: int = 16_384,
    dtype: str = "float32",
    copies: LocalCopies | None = None,
    on_disk_full: Callable[[ModelId], None] | None = None,
    packs: bool = True,
    checkpoint_activations: bool = False,
) -> Engine:
    config = EngineConfig(
        {BASE: str(base_folder)},
        str(checkpoints),
        dtype=dtype,
        micro_batch_tokens=micro_batch_tokens,
        packs=packs,
        checkpoint_activations=checkpoint_activations,
    )
    return Engine(config, copies=copies, on_disk_full=on_disk_full)


class Trainer(Protocol):
    """An engine, or several that train as one."""

    def open(
        self, model_id: ModelId, spec: ModelSpec, *, checkpoint_url: str | None, next_op: int
    ) -> OpOutcome: ...

    def apply(self, model_id: ModelId, number: int, body: OpBody) -> OpOutcome: ...


TrainerT = TypeVar("TrainerT", bound=Trainer)


def opened(engine: TrainerT, spec: ModelSpec, model: ModelId = MODEL) -> TrainerT:
    done(engine.open(model, spec, checkpoint_url=None, next_op=1))
    return engine


def done(outcome: OpOutcome) -> OpDone:
    assert isinstance(outcome, OpDone), outcome
    return outcome


def failed(outcome: OpOutcome) -> str:
    assert isinstance(outcome, OpFailed), outcome
    return outcome.reason


def random_batch(seed: int, lengths: Sequence[int] = (5, 12, 3, 9)) -> TokenBatch:
    """Random tokens, about half of them under the mask; logprobs as of a nearby sampler."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    mask_N = (rng.random(n) < 0.5).astype(np.uint8)
    mask_N[lengths[0] - 1] = 1  # whatever chance says, there is something to train on
    return TokenBatch(
        ids_N=rng.integers(3, VOCABULARY, n, dtype=np.int32),
        lengths_B=np.asarray(lengths, np.int32),
        mask_N=mask_N,
        logprobs_N=-rng.uniform(2.0, 6.0, n).astype(np.float32),
        weights_N=rng.normal(size=n).astype(np.float32),
    )


MILD = 3.0


@torch.no_grad()
def sampled_batch(
    model: nn.Module, seed: int, lengths: Sequence[int], temperature: float
) -> TokenBatch:
    """Tokens that the model has drawn itself; its own logprobs but for a sampler's small lag.

    How exact float32 can be depends on the tokens. A ratio is the exponential of a difference of
    logprobs, so its relative error is the absolute error of a logprob: 1e-6 at -16, which nobody
    draws. And a token that was certain has a gradient of 1 - p, which is rounding and little else.
    The tests' base model is as sharp as that, so they draw and train at a temperature of `MILD`.
    """
    torch.manual_seed(seed)
    double = copy.deepcopy(model).double()
    ids_BT = torch.randint(3, VOCABULARY, (len(lengths), 1))
    for _ in range(1, max(lengths)):
        logits_BV = double(input_ids=ids_BT).logits[:, -1] / temperature
        ids_BT = torch.cat([ids_BT, torch.multinomial(logits_BV.softmax(-1), 1)], dim=1)
    batch = random_batch(seed, lengths)
    rows = [ids_T[:n] for ids_T, n in zip(ids_BT, lengths, strict=True)]
    batch = batch.model_copy(update={"ids_N": torch.cat(rows).numpy().astype(np.int32)})
    logprobs_N = reference_logprobs(double, batch, temperature).numpy()
    lag_N = np.random.default_rng(seed).normal(scale=0.2, size=logprobs_N.size)
    logprobs_N = np.minimum(logprobs_N + lag_N, 0.0).astype(np.float32)
    return batch.model_copy(update={"logprobs_N": logprobs_N})


def relative_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Of a whole gradient: the norm of what is wrong over the norm of what is right."""
    assert found.keys() == expected.keys()
    wrong = torch.cat(
        [(found[name].double() - tensor).flatten() for name, tensor in expected.items()]
    )
    right = torch.cat([tensor.double().flatten() for tensor in expected.values()])
    return float(torch.linalg.vector_norm(wrong) / torch.linalg.vector_norm(right))


def forward_backward(
    batch: TokenBatch, loss: Loss | None = None, *, temperature: float = 1.0, logprobs: bool = False
) -> ForwardBackward:
    return ForwardBackward(
        loss=loss or PpoLoss(), batch=batch, temperature=temperature, return_logprobs=logprobs
    )


def optim_step(**changes: float) -> OptimStep:
    return OptimStep.model_validate({"learning_rate": 1e-3, **changes})


def some_ops(n: int, seed: int = 0, critic: CriticTerm | None = None) -> list[OpBody]:
    """Windows of one to three forward_backward ops and an optim_step, n ops in all.

    If a critic is asked for, every other window asks for it.
    """
    rng = np.random.default_rng(seed)
    ops: list[OpBody] = []
    other: CriticTerm | None = None
    while len(ops) < n:
        for _ in range(int(rng.integers(1, 4))):
            lengths = rng.integers(2, 14, int(rng.integers(2, 9))).tolist()
            update = forward_backward(random_batch(int(rng.integers(1 << 30)), lengths))
            ops.append(update.model_copy(update={"critic": critic}))
        critic, other = other, critic
        ops.append(optim_step(clip_norm=1.0, learning_rate=float(rng.uniform(1e-3, 5e-3))))
    return ops[:n]


def apply_all(engine: Trainer, ops: Iterable[OpBody], *, first: int = 1) -> list[OpOutcome]:
    return [engine.apply(MODEL, number, op) for number, op in enumerate(ops, first)]


def digest(tensors: Iterable[Tensor]) -> str:
    """Of the exact bits."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().contiguous().numpy().tobytes())
    return sha.hexdigest()


def seal_of(outcome: OpOutcome) -> str:
    """The digests of everything in a checkpoint but its configuration."""
    url = done(outcome).checkpoint_url
    assert url is not None
    lines = (Path(url) / "SHA256SUMS").read_text().splitlines()
    return "\n".join(line for line in lines if line.endswith(".safetensors"))


def sequences(batch: TokenBatch) -> list[slice]:
    """Where each sequence lies among the N tokens."""
    ends = np.cumsum(batch.lengths_B).tolist()
    return [slice(end - n, end) for end, n in zip(ends, batch.lengths_B.tolist(), strict=True)]


def reference_logprobs(model: nn.Module, batch: TokenBatch, temperature: float) -> Tensor:
    """One plain forward for each sequence, without padding; 0 for first tokens. Shape [N]."""
    rows: list[Tensor] = []
    for place in sequences(batch):
        ids_T = torch.tensor(batch.ids_N[place].astype(np.int64))
        logits_TV = model(input_ids=ids_T[None]).logits[0] / temperature
        targets_T = torch.tensor(batch.trained_N[place].astype(np.int64))
        logprobs_T = logits_TV.log_softmax(-1)[:-1].gather(1, targets_T[1:, None])[:, 0]
        rows.append(torch.cat([logprobs_T.new_zeros(1), logprobs_T]))
    return torch.cat(rows)


TokenLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(trainer's logprobs, sampler's logprobs, weights) of some tokens -> loss of each."""


def reference_gradient(
    model: nn.Module, batch: TokenBatch, token_loss: TokenLoss, temperature: float = 1.0
) -> dict[str, Tensor]:
    """The gradient by autograd in float64, written as plainly as possible."""
    double = copy.deepcopy(model).double()
    double.zero_grad()
    logprobs_N = reference_logprobs(double, batch, temperature)
    loss = torch.zeros((), dtype=torch.float64)
    firsts = {place.start for place in sequences(batch)}
    for t in range(batch.ids_N.size):
        if batch.mask_N[t] and t not in firsts:
            sampler = torch.tensor(float(batch.logprobs_N[t]), dtype=torch.float64)
            weight = torch.tensor(float(batch.weights_N[t]), dtype=torch.float64)
            loss = loss + token_loss(logprobs_N[t], sampler, weight)
    loss.backward()
    return {n: p.grad for n, p in double.named_parameters() if p.grad is not None}


def base_digest(base_folder: Path) -> str:
    return digest(load_base(str(base_folder)).state_dict().values())


def model_of(engine: Engine) -> TrainableModel:
    return engine._entries[MODEL].model  # pyright: ignore[reportPrivateUsage]


def weights_of(engine: Engine) -> str:
    return digest(model_of(engine).parameters.values())


def gradient_of(engine: Engine) -> dict[str, Tensor]:
    causal = model_of(engine).network.causal
    return {n: p.grad for n, p in causal.named_parameters() if p.grad is not None}


def save(engine: Engine, number: int, name: str = "it") -> str:
    url = done(engine.apply(MODEL, number, SaveState(name=name))).checkpoint_url
    assert url is not None
    return url
