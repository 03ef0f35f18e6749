"""Puzzles of Reasoning Gym: refused in sentences without the package, scored with it."""

import sys
from pathlib import Path
from time import sleep

import pytest

from warren.environment import ConfigError, TaskError
from warren.testing import demonstrator, play
from warren_env_worker.environments.bounded_scoring import MachineTooSlow, bounded_score
from warren_env_worker.environments.reasoning_gym import UNFIT, ReasoningGym

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")


@pytest.mark.parametrize("dataset", sorted(UNFIT))
def test_unfit_datasets_are_refused_with_the_reason(dataset: str) -> None:
    with pytest.raises(ConfigError, match="can't be trained on"):
        ReasoningGym(dataset)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ConfigError, match="install the package reasoning-gym"):
        play(ReasoningGym("basic_arithmetic"), lambda _: "1")


RUNS_ANSWERS = (
    "binary_matrix", "n_queens", "spiral_matrix", "string_insertion", "countdown", "puzzle24",
    "intermediate_integration", "polynomial_multiplication", "simple_integration",
)  # fmt: skip


@pytest.mark.parametrize("dataset", RUNS_ANSWERS)
def test_an_answer_is_never_run(dataset: str, tmp_path: Path) -> None:
    """The scorers of these datasets hand it to `eval`."""
    path = tmp_path / "written"
    for code in (
        f"__import__('pathlib').Path('{path}').write_text('x')",
        f"open('{path}', 'w')",
        f"[c for c in [open][0]('{path}', 'w').name]",
        f"print(open('{path}', 'w'))",
    ):
        environment = ReasoningGym(dataset)
        play(environment, lambda _, code=code: f"<answer>{code}</answer>", seed=1)
        assert not path.exists()
    environment = ReasoningGym(dataset)
    assert play(environment, demonstrator(environment), seed=1).reward == 1.0


@pytest.mark.parametrize("dataset", ["basic_arithmetic", "chain_sum", "number_sorting", "sudoku"])
def test_the_right_answer_scores_1_and_junk_less(dataset: str) -> None:
    environment = ReasoningGym(dataset)
    first = play(environment, demonstrator(environment), seed=1)
    assert first.reward == 1.0
    again = play(ReasoningGym(dataset), lambda _: "<think><answer>1</answer></think> junk", seed=1)
    assert again.messages[:2] == first.messages[:2]
    assert again.reward < 1.0
    other = play(ReasoningGym(dataset), lambda _: "", seed=1, split="test")
    assert other.messages[1] != first.messages[1]


class Broken(ReasoningGym):
    """A scorer that fails on some answers."""

    fails_on: frozenset[str] | None = frozenset({"hang", "hoard", "raise"})
    """None: on all of them."""

    def __init__(self) -> None:
        super().__init__("basic_arithmetic")

    def _score(self, answer: str) -> float:
        if self.fails_on is not None and answer not in self.fails_on:
            return super()._score(answer)
        if answer == "hoard":
            return float(len(bytearray(1 << 40)))
        while answer == "hang":
            pass
        raise ValueError("no number")


@pytest.mark.parametrize(("answer", "is_over"), [("hang", 1), ("hoard", 1), ("raise", 0), ("7", 0)])
def test_an_answer_that_its_scorer_can_t_take_scores_0(answer: str, is_over: int) -> None:
    episode = play(Broken(), lambda _: f"<answer>{answer}</answer>", seed=1)
    assert (episode.reward, episode.results[-1].metrics["timed_out"]) == (0.0, is_over)


class BrokenForAll(Broken):
    fails_on = None


def test_a_scorer_that_fails_on_the_right_answer_fails_the_episode() -> None:
    with pytest.raises(TaskError, match="its own right answer: ValueError: no number"):
        play(BrokenForAll(), lambda _: "7", seed=1)


def test_a_busy_machine_is_nobodys_fault() -> None:
    with pytest.raises(MachineTooSlow):
        bounded_score(lambda: sleep(600.0) or 1.0, wall_s=0.05)
