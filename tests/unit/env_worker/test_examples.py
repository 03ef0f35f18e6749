"""The examples: one turn or several, with data or without. Parity row 37."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from warren.environment import Context
from warren.testing import demonstrator, play
from warren_env_worker.check.checks import run_checks
from warren_env_worker.check.finding import Mark
from warren_env_worker.check.probe import Probe

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = ("Reverse", "Capitals", "Nim", "Tutor")


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    return loaded("environments")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "words", "reward", "n_turns"),
    [
        ("Reverse", ["x"], 0.0, 1),
        ("Capitals", ["It is Paris."], 1.0, 1),
        ("Capitals", ["It is Rome."], 0.0, 1),
        ("Nim", ["4"], -1.0, 1),
        ("Tutor", ["Rome", "Lyon", "Paris"], 1 / 3, 3),
        ("Tutor", ["Rome", "Lyon", "Nice"], 0.0, 3),
    ],
)
def test_row_37_single_and_multi_turn_with_data_and_without(
    examples: ModuleType, name: str, words: list[str], reward: float, n_turns: int
) -> None:
    said = iter(words)
    episode = play(getattr(examples, name)(), lambda _: next(said))
    assert (episode.reward, len(episode.results)) == (pytest.approx(reward), n_turns)


@pytest.mark.parametrize("name", NAMES)
def test_their_demonstrations_are_legal(examples: ModuleType, name: str) -> None:
    environment = getattr(examples, name)()
    assert play(environment, demonstrator(environment)).reward >= -1.0


def test_images_are_shown_in_every_turn() -> None:
    squares = loaded("images").Squares()
    episode = play(squares, demonstrator(squares))
    assert (episode.reward, len(episode.results)) == (pytest.approx(1.0), 2)
    shown = squares.reset(None, Context.derive(1))
    (image,) = shown[0].images
    assert image.media_type == "image/png"


def test_actions_of_two_types_are_told_apart() -> None:
    treasure = loaded("typed_actions").Treasure()
    said = iter(['{"kind": "ask", "about": "row"}', "there!", '{"row": 4, "column": 0}'])
    episode = play(treasure, lambda _: next(said), seed=1, max_turns=3)
    shown = [message.content for message in episode.messages if message.role == "user"]
    assert shown[1] == f"row {treasure.row}"
    assert shown[2] == "That can't be read as an action: there is no JSON in it"
    assert "row: expected a number below 4" in shown[3]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("environments", name) for name in NAMES),
        ("images", "Squares"),
        ("typed_actions", "Treasure"),
    ],
)
def test_they_pass_the_check(module: str, name: str) -> None:
    findings = list(run_checks(Probe(getattr(loaded(module), name), {}, "train")))
    assert [f for f in findings if f.mark is Mark.BAD] == []
