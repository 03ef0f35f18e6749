"""The first hour with Warren: the pages that a newcomer follows, executed as they stand. Their runs raise no alarm."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.patience import whole_deployment
from tests.support.private_rabbit import PrivateRabbit
from tests.tour.pages import blocks_of
from tests.tour.rules import Deed, task_of
from tests.tour.terminal import Terminal
from tests.tour.walk import Walk, give_stand_ins, reader_of_the_readme

pytestmark = [pytest.mark.tour, whole_deployment]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """To the screen at once, whatever pytest captures."""

    def tell(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    return tell


@pytest.fixture
def walk(
    tmp_path: Path,
    private_rabbit: PrivateRabbit,
    private_postgres: str,
    report: Callable[[str], None],
) -> Iterator[Walk]:
    folder, home = tmp_path / "reader", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    give_stand_ins(folder)
    servers = {"amqp": private_rabbit.url, "postgresql": private_postgres.partition("?")[0]}
    yield Walk(folder, home, servers, report)


def test_the_readme(walk: Walk) -> None:
    reader_of_the_readme(walk.folder)
    walk.follow(blocks_of("README.md"))
    trained = [each for each in walk.done if "--follow" in each.command or is_of_guess(each)]
    assert len(trained) > 1 and not warnings_of(trained)


def warnings_of(terminals: list[Terminal]) -> list[str]:
    return [line for each in terminals for line in each.shown.splitlines() if "warning: " in line]


def is_of_guess(terminal: Terminal) -> bool:
    return "warren train examples/guess.yaml" in terminal.command


def test_an_environment_from_an_empty_file_to_a_trained_model(walk: Walk) -> None:
    walk.follow(blocks_of("docs/environments.md"))
    trained = [each for each in walk.done if "warren train parity.yaml" in each.command]
    assert trained and (walk.home / ".warren" / "runs").is_dir()
    assert not warnings_of(trained)


@pytest.mark.parametrize("page", ["README.md", "docs/environments.md"])
def test_no_block_is_left_out(page: str) -> None:
    deeds = {str(block): task_of(block).deed for block in blocks_of(page)}
    assert len(deeds) == page_fences(page)
    assert Deed.SHELL in deeds.values()


def page_fences(page: str) -> int:
    text = (Path(__file__).parents[2] / page).read_text()
    return sum(line.startswith("```") for line in text.splitlines()) // 2
