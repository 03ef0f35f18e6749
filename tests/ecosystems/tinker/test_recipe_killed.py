"""A recipe of the cookbook, of whose deployment the GPU worker, the gateway and RabbitMQ are killed one after the other:
it ends by itself, and has learned the same, bit by bit."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.ecosystems.tinker.cookbook import CHAT_SL, N_CHAT_SL_STEPS, Cookbook, cookbook_in
from tests.ecosystems.tinker.lettered import build_lettered
from tests.ecosystems.tinker.parts import GATEWAY, GPU, key_of, parted, restart
from tests.ecosystems.tinker.table import BASE
from tests.support.base_models import tiny_models
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import wait_until

__all__ = ["tiny_models"]

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server, several_waits]
NLL = "train_mean_nll"


def cook(cookbook: Cookbook, log: str, breaking: Sequence[Callable[[], None]] = ()) -> None:
    """To its end; something is broken every few steps."""
    recipe = cookbook.begin("chat_sl.train", *CHAT_SL, "save_every=8", log=log)
    try:
        for number, break_it in enumerate(breaking, start=1):
            n_steps = number * N_CHAT_SL_STEPS // (len(breaking) + 1)
            wait_until(
                lambda n=n_steps: len(cookbook.rows(NLL, log)) >= n,
                recipe,
                deadline_s=PATIENCE_S,
                log_path=cookbook.output,
            )
            break_it()
        assert recipe.wait(PATIENCE_S) == 0, cookbook.output.read_text()[-3000:]
    finally:
        recipe.kill()
        recipe.wait()


def learned(cookbook: Cookbook, log: str) -> list[float]:
    """The loss before each step."""
    return [row[NLL] for row in cookbook.rows(NLL, log)]


def test_a_recipe_ends_with_the_same_weights_whatever_is_killed(
    tiny_models: dict[str, str], tmp_path: Path, doomed_rabbit: PrivateRabbit
) -> None:
    def broker() -> None:
        doomed_rabbit.kill()
        doomed_rabbit.start()

    model = tmp_path / "lettered"
    build_lettered(Path(tiny_models[BASE]), model)
    (home := tmp_path / "site").mkdir()
    with parted(home, doomed_rabbit.url, f"{BASE}={model}") as site:
        tagged = cookbook_in(tmp_path, site.url, key_of(site), str(model), "deterministic")
        tagged.write_sums()
        cook(tagged, "undisturbed")
        killing = (partial(restart, site, GPU), partial(restart, site, GATEWAY), broker)
        cook(tagged, "disturbed", killing)
        losses = learned(tagged, "undisturbed")
        assert len(losses) == N_CHAT_SL_STEPS
        assert losses[-1] < losses[0] - 0.5
        assert learned(tagged, "disturbed") == losses
        digests = tagged.digests("undisturbed")
        assert len(digests) == 2
        assert tagged.digests("disturbed") == digests
