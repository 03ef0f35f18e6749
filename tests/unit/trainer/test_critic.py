# pyright: reportUnknownMemberType=false
"""PPO with a critic: advantages by a plain loop, gradients by plain float64 code, checkpoints."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer import (
    FULL,
    LORA,
    MILD,
    MODEL,
    SPECS_WITH_CRITIC,
    apply_all,
    digest,
    done,
    engine_for,
    failed,
    forward_backward,
    model_of,
    opened,
    optim_step,
    random_batch,
    relative_error,
    sampled_batch,
    seal_of,
    sequences,
    some_ops,
)
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from warren_gpu_worker.losses.gae import generalized_advantages
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.weights import fetch_policy
from warren_schemas.config import PpoLoss
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import (
    CriticTerm,
    ForwardBackward,
    LoadState,
    ModelSpec,
    OpBody,
    PublishPolicy,
    SaveState,
)

TERM = CriticTerm(gamma=0.9, gae_lambda=0.8, value_coefficient=0.7, advantage_scale=0.25)


def update(batch: TokenBatch, term: CriticTerm = TERM) -> ForwardBackward:
    return ForwardBackward(loss=PpoLoss(), batch=batch, temperature=MILD, critic=term)


def stirred(engine: Engine) -> Engine:
    """Away from the start, where the critic is zero."""
    window: list[OpBody] = [update(random_batch(99)), optim_step(learning_rate=0.01)]
    apply_all(engine, window * 2)
    return engine


def plain_advantages(
    rewards: list[float], values: list[float], gamma: float, lam: float
) -> list[float]:
    """A_k = Σ_j (γλ)^j δ_{k+j}, written as it is defined."""
    n = len(rewards)
    after = [*values[1:], 0.0]
    deltas = [rewards[k] + gamma * after[k] - values[k] for k in range(n)]
    return [sum((gamma * lam) ** j * deltas[k + j] for j in range(n - k)) for k in range(n)]


NUMBERS = st.floats(-4, 4, width=32)
SHARES = st.floats(0, 1, width=32)


@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), NUMBERS, NUMBERS), max_size=6), min_size=1, max_size=4
    ),
    SHARES,
    SHARES,
)
def test_advantages_are_the_sum_of_what_follows(
    rows: list[list[tuple[bool, float, float]]], gamma: float, lam: float
) -> None:
    """Whatever stands outside the mask has no influence, padding too."""
    width = max(1, *map(len, rows))
    padded = [row + [(False, 9.0, 9.0)] * (width - len(row)) for row in rows]
    mask_BT = np.array([[cell[0] for cell in row] for row in padded])
    rewards_BT = np.array([[cell[1] for cell in row] for row in padded])
    values_BT = np.array([[cell[2] for cell in row] for row in padded])
    found_BT = generalized_advantages(rewards_BT, values_BT, mask_BT, gamma=gamma, gae_lambda=lam)
    assert not found_BT[~mask_BT].any()
    for row, mask_T in enumerate(mask_BT):
        rewards, values = rewards_BT[row, mask_T].tolist(), values_BT[row, mask_T].tolist()
        expected = plain_advantages(rewards, values, gamma, lam)
        assert found_BT[row, mask_T] == pytest.approx(expected, abs=1e-9)


Map = Callable[[Tensor], Tensor]


def reference_gradient(causal: nn.Module, batch: TokenBatch, term: CriticTerm) -> dict[str, Tensor]:
    """One sequence after the other, in float64."""
    double = copy.deepcopy(causal).double()
    double.zero_grad()
    decoder = double.get_submodule("model")
    head, critic = (cast("Map", double.get_submodule(name)) for name in ("lm_head", "critic"))
    losses: list[Tensor] = []
    for place in sequences(batch):
        ids_T = torch.tensor(batch.ids_N[place].astype(np.int64))
        chosen = [t for t in range(1, len(ids_T)) if batch.mask_N[place][t]]
        hidden_TH = cast("Tensor", decoder(input_ids=ids_T[None]).last_hidden_state)[0]
        logprobs_TV = (head(hidden_TH) / MILD).log_softmax(-1)
        values_T = critic(hidden_TH)[:, 0]
        values = [float(values_T[t - 1].detach()) for t in chosen]
        rewards = [float(batch.weights_N[place][t]) for t in chosen]
        advantages = plain_advantages(rewards, values, term.gamma, term.gae_lambda)
        for t, value, advantage in zip(chosen, values, advantages, strict=True):
            ratio = (logprobs_TV[t - 1, ids_T[t]] - float(batch.logprobs_N[place][t])).exp()
            weight = term.advantage_scale * advantage
            losses.append(-torch.minimum(ratio * weight, ratio.clamp(0.8, 1.28) * weight))
            error = (values_T[t - 1] - (value + advantage)).abs()
            clip = term.value_clip or float("inf")
            is_near = error <= clip
            penalty = error**2 / 2 if is_near else clip * (error - clip / 2)
            losses.append(term.value_coefficient * penalty)
    torch.stack(losses).sum().backward()
    return {n: p.grad for n, p in double.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("spec", SPECS_WITH_CRITIC)
@pytest.mark.parametrize(("budget", "clip"), [(1, None), (20, 0.5), (10_000, None)])
def test_gradient_equals_the_float64_reference(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, budget: int, clip: float | None
) -> None:
    engine = stirred(opened(engine_for(base_folder, tmp_path, micro_batch_tokens=budget), spec))
    causal = model_of(engine).network.causal
    batch = sampled_batch(causal, 1, (5, 12, 3, 9, 1, 2, 12), MILD)
    term = TERM.model_copy(update={"value_clip": clip})
    expected = reference_gradient(causal, batch, term)
    outcome = done(engine.apply(MODEL, 5, update(batch, term)))
    found = {n: p.grad for n, p in causal.named_parameters() if p.grad is not None}
    assert any(n.startswith("critic.") for n in found)
    assert relative_error(found, expected) <= 1e-6
    assert outcome.metrics["value_error:mean"] > 0


@pytest.mark.parametrize("spec", SPECS_WITH_CRITIC)
def test_a_checkpoint_brings_the_critic_and_a_policy_does_not(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    ops: list[OpBody] = [update(random_batch(1)), optim_step(), update(random_batch(2))]
    rest: list[OpBody] = [
        optim_step(),
        update(random_batch(3)),
        optim_step(),
        SaveState(name="end"),
    ]
    engine = opened(engine_for(base_folder, tmp_path / "one"), spec)
    *_, saved = apply_all(engine, [*ops, SaveState(name="middle")])
    policy = done(engine.apply(MODEL, 5, PublishPolicy())).policy
    assert policy is not None
    assert not any("critic" in name for name in fetch_policy(policy.url).tensors)
    if spec.update == FULL.update:
        AutoModelForCausalLM.from_pretrained(policy.url)
    undisturbed = apply_all(engine, rest, first=6)
    other = engine_for(base_folder, tmp_path / "other")
    done(other.open(MODEL, spec, checkpoint_url=done(saved).checkpoint_url, next_op=5))
    done(other.apply(MODEL, 5, PublishPolicy()))
    assert seal_of(apply_all(other, rest, first=6)[-1]) == seal_of(undisturbed[-1])


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_a_model_goes_on_with_a_critic_or_without(
    base_folder: Path, tmp_path: Path, before: bool, after: bool
) -> None:
    """What a checkpoint lacks begins anew, and what a model lacks is left out."""
    first = opened(engine_for(base_folder, tmp_path), LORA.model_copy(update={"critic": before}))
    window: list[OpBody] = [update(random_batch(1)), optim_step()] if before else some_ops(4)
    url = done(apply_all(first, [*window, SaveState(name="it")])[-1]).checkpoint_url
    assert url is not None
    second = opened(engine_for(base_folder, tmp_path), LORA.model_copy(update={"critic": after}))
    done(second.apply(MODEL, 1, LoadState(url=url)))
    own = [model_of(e).policy_parameters.values() for e in (first, second)]
    assert digest(own[0]) == digest(own[1])
    assert not any(p.any() for p in model_of(second).critic_parameters.values())
    if after:
        done(second.apply(MODEL, 2, update(random_batch(2))))
        done(second.apply(MODEL, 3, optim_step()))
    else:
        assert "was made without one" in failed(second.apply(MODEL, 2, update(random_batch(2))))


def test_an_op_without_the_critic_leaves_it_alone(base_folder: Path, tmp_path: Path) -> None:
    engine = stirred(
        opened(engine_for(base_folder, tmp_path), LORA.model_copy(update={"critic": True}))
    )
    before = digest(model_of(engine).critic_parameters.values())
    apply_all(engine, [forward_backward(random_batch(1)), optim_step(weight_decay=0.1)], first=5)
    assert digest(model_of(engine).critic_parameters.values()) == before
