"""Recipes of Tinker's cookbook, unmodified, against a deployment: the cookbook's own Python runs them."""

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from tests.ecosystems.tinker.cookbook import (
    CHAT_SL,
    N_CHAT_SL_STEPS,
    RL,
    Cookbook,
    Rows,
    cookbook_in,
)
from tests.ecosystems.tinker.lettered import build_lettered
from tests.ecosystems.tinker.table import BASE, Up, deployed
from tests.support.base_models import tiny_models
from tests.support.patience import several_waits

__all__ = ["tiny_models"]

pytestmark = several_waits
in_ci = pytest.mark.ecosystem
not_in_ci = pytest.mark.ecosystem_all
ON_POLICY = "loss_fn=importance_sampling"
MINIBATCHES = (
    "stream_minibatch_config.groups_per_batch=4",
    "stream_minibatch_config.num_minibatches=2",
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, str]) -> Generator[Up]:
    folder = tmp_path_factory.mktemp("up")
    build_lettered(Path(tiny_models[BASE]), folder / "lettered")
    with deployed(folder, str(folder / "lettered")) as up:
        yield up


@pytest.fixture
def cookbook(up: Up, tmp_path: Path) -> Cookbook:
    return cookbook_in(tmp_path, up.url, up.key, up.model)


@pytest.fixture(scope="module")
def taught(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Cookbook:
    """Fine-tuned on sums: its adapter is no longer the one that does nothing."""
    folder = tmp_path_factory.mktemp("taught")
    taught = cookbook_in(folder, up.url, up.key, up.model)
    taught.write_sums()
    taught.cook("chat_sl.train", *CHAT_SL)
    return taught


def apart(rows: Rows) -> float:
    """How far samplers and trainer are apart about the same tokens, at most."""
    return max(row["optim/kl_sample_train_v2"] for row in rows)


@in_ci
def test_chat_sl_learns_from_a_file(taught: Cookbook) -> None:
    nll = [row["train_mean_nll"] for row in taught.rows(of="train_mean_nll")]
    assert len(nll) == N_CHAT_SL_STEPS
    assert nll[-1] < nll[0] - 0.5


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param((), marks=in_ci, id="synchronous"),
        pytest.param(MINIBATCHES, marks=not_in_ci, id="minibatches"),
    ],
)
def test_math_rl_is_on_policy(taught: Cookbook, cookbook: Cookbook, asked: Sequence[str]) -> None:
    load = f"load_checkpoint_path={taught.saved()}"
    cookbook.cook("math_rl.train", *RL, *asked, ON_POLICY, load, "max_steps=3")
    rows = cookbook.rows(of="progress/batch")
    assert [row["progress/batch"] for row in rows] == [0, 1, 2]
    assert apart(rows) < 1e-6


@not_in_ci
def test_math_rl_asynchronous(taught: Cookbook, cookbook: Cookbook) -> None:
    asked = ("max_steps_off_policy=1", "loss_fn=ppo", f"load_checkpoint_path={taught.saved()}")
    cookbook.cook("math_rl.train", *RL, *asked, "max_steps=3")
    assert len(cookbook.rows(of="optim/kl_sample_train_v2")) == 3


@not_in_ci
def test_math_rl_goes_on_with_its_optimizer(cookbook: Cookbook) -> None:
    asked = (*RL, ON_POLICY, "save_every=1", "behavior_if_log_dir_exists=resume")
    cookbook.cook("math_rl.train", *asked, "max_steps=1")
    cookbook.cook("math_rl.train", *asked, "max_steps=2")
    rows = cookbook.rows(of="progress/batch")
    assert [row["progress/batch"] for row in rows] == [0, 1]
    assert apart(rows) < 1e-6


@in_ci
def test_guess_number(cookbook: Cookbook) -> None:
    asked = ("batch_size=2", "group_size=2", "max_tokens=4", "max_steps=1")
    cookbook.cook("multiplayer_rl.guess_number.train", *asked)
    assert apart(cookbook.rows(of="progress/batch")) < 1e-6


@not_in_ci
def test_text_arena(cookbook: Cookbook) -> None:
    data = ("num_train_datapoints=8", "num_test_datapoints=2")
    cookbook.cook(
        "multiplayer_rl.text_arena.train",
        *data,
        "batch_size=4",
        "max_tokens=8",
        "max_steps=2",
    )
    first, second = cookbook.rows(of="progress/batch")
    assert first["env/all/by_group/frac_mixed"] > 0, "then there is nothing to learn"
    assert apart([second]) < 1e-6
