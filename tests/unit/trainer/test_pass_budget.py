# pyright: reportUnknownMemberType=false
"""No memory for a pass: the op is computed in smaller ones, with the same result as if they had been asked for."""

import socket
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch
from tests.support.small_trainer_child import SmallEngine
from tests.support.trainer import (
    BASE,
    LORA,
    MODEL,
    SPECS,
    apply_all,
    done,
    engine_for,
    failed,
    forward_backward,
    model_of,
    opened,
    optim_step,
    random_batch,
    weights_of,
)

from warren_broker.worker.channel import Channel
from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.main import TrainerChild
from warren_gpu_worker.trainer.errors import OpTooLarge
from warren_gpu_worker.trainer.messages import (
    Apply,
    ApplyBatched,
    Open,
    TooLarge,
    Turn,
    pack,
    unpack_report,
)
from warren_gpu_worker.trainer.training.pass_budget import PassBudget
from warren_gpu_worker.trainer.training.ranks import ALONE
from warren_schemas.ids import ModelId
from warren_schemas.training import Forward, ModelSpec

ROOM = 14
"""Positions of a pass that this device has memory for; the longest sequence has 11."""
OP = forward_backward(random_batch(1))
FORWARD = Forward(loss=OP.loss, batch=OP.batch, return_logprobs=True)


@contextmanager
def small_device(engine: Engine) -> Generator[list[int]]:
    """Passes of more than `ROOM` positions have no memory; the sizes of all that were tried."""
    tried: list[int] = []

    def check(_: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        tried.append(kwargs["input_ids"].numel())
        if tried[-1] > ROOM:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    decoder = model_of(engine).network.decoder
    handle = decoder.register_forward_pre_hook(check, with_kwargs=True)
    try:
        yield tried
    finally:
        handle.remove()


@pytest.mark.parametrize("spec", SPECS)
def test_an_op_is_computed_in_passes_that_fit(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    engine = opened(engine_for(base_folder, tmp_path / "small", packs=False), spec)
    ops = [FORWARD, OP, OP, optim_step()]
    with small_device(engine) as tried:
        outcomes = [done(outcome) for outcome in apply_all(engine, ops)]
    assert max(tried) > ROOM
    assert all(n <= ROOM for n in tried[2:]), tried  # it learned at the first op
    notices = [outcome.notice for outcome in outcomes]
    assert notices[1:] == [None, None, None]
    assert notices[0]
    assert "--micro-batch-tokens 14" in notices[0]

    wanted = opened(
        engine_for(base_folder, tmp_path / "wanted", micro_batch_tokens=14, packs=False), spec
    )
    expected = [done(outcome) for outcome in apply_all(wanted, ops)]
    assert weights_of(engine) == weights_of(wanted)
    assert [outcome.metrics for outcome in outcomes] == [outcome.metrics for outcome in expected]


def test_a_gradient_that_is_there_already_ends_the_process_and_the_next_one_begins_smaller(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path, packs=False), LORA)
    done(engine.apply(MODEL, 1, OP))
    with small_device(engine), pytest.raises(OpTooLarge, match="out of memory") as raised:
        engine.apply(MODEL, 2, OP)
    following = engine_for(base_folder, tmp_path / "next", packs=False)
    done(
        following.open(
            MODEL, LORA, checkpoint_url=None, next_op=1, max_tokens=raised.value.max_tokens
        )
    )
    with small_device(following):
        outcomes = [done(outcome) for outcome in apply_all(following, [OP, OP, optim_step()])]
    assert outcomes[0].notice
    assert outcomes[2].version == 1


def test_the_last_word_names_the_one_of_several_models_that_was_too_large(
    base_folder: Path, tmp_path: Path
) -> None:
    settings = GpuWorkerSettings(
        base_models={BASE: str(base_folder)},
        checkpoint_url=str(tmp_path),
        device="cpu",
        pack_sequences=False,
    )
    other, large = ModelId("model_other"), forward_backward(random_batch(2, [30] * 3))
    turns = [
        *(Open(model, 1, LORA, checkpoint_url=None, next_op=1) for model in (MODEL, other)),
        Apply(other, 1, ((1, OP),)),
        ApplyBatched((Apply(MODEL, 1, ((1, OP),)), Apply(other, 1, ((2, large),)))),
    ]
    word = _last_word(settings, turns)
    assert isinstance(word, TooLarge)
    assert (word.model, word.number, word.max_tokens) == (other, 2, 45)


def _last_word(settings: GpuWorkerSettings, turns: Sequence[Turn]) -> object:
    """What a child whose device is small says before it ends."""
    ours, theirs = map(Channel, socket.socketpair())
    with closing(ours), closing(LocalCopies()) as copies:
        for turn in turns:
            ours.send(pack(turn))
        with closing(theirs), pytest.raises(OpTooLarge, match="out of memory"):
            TrainerChild(theirs, settings, ALONE, copies, SmallEngine).run()
        return [unpack_report(frame) for frame in iter(ours.receive, None)][-1]


def test_one_sequence_that_is_too_long_fails_with_what_to_change(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path, packs=False), LORA)
    long, short = (
        forward_backward(random_batch(2, (20, 4))),
        forward_backward(random_batch(3, (9,))),
    )
    with small_device(engine):
        assert "make sequences shorter" in failed(engine.apply(MODEL, 1, long))
        assert "out of memory" in failed(engine.apply(MODEL, 2, optim_step()))
        outcomes = apply_all(engine, [short, optim_step()], first=3)
    assert done(outcomes[1]).version == 1


def test_budgets_fall_by_halves_to_the_longest_sequence_and_no_further() -> None:
    batch = random_batch(4, (40, 10, 10, 40, 28))
    budget, tried = PassBudget(16_384), [16_384]
    while (smaller := budget.smaller_for(batch)) is not None:
        budget.lower(smaller)
        tried.append(smaller)
    assert tried == [16_384, 64, 40]
    assert PassBudget(16_384).smaller_for(batch, n_ranks=2) == 40  # of 40 + 28 + 10
    assert PassBudget(16_384).smaller_for(random_batch(4, [10] * 16), n_ranks=4) == 20
