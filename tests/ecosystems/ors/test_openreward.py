"""What only servers of `openreward` have: terminal tools, which the policy is not told of."""

from collections.abc import Generator

import pytest
from tests.ecosystems.ors.serving import LOOK, play, serving, told
from tests.ecosystems.real_server import RealServer, saying

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealServer]:
    with serving("openreward", tmp_path_factory.mktemp("openreward")) as started:
        yield started


@pytest.mark.shows("ORS client", "tools")
def test_a_terminal_tool_takes_the_last_words(server: RealServer) -> None:
    episode = play(server, saying(LOOK, " 1003 "), "told")
    assert told(episode) == ["1 (look 1)", "told"]
    assert [(result.reward, result.done) for result in episode.results] == [
        (0.1, False),
        (1.0, True),
    ]
    assert "Says the code" not in episode.messages[0].content


@pytest.mark.shows("ORS client", "tools")
def test_a_terminal_tool_without_an_argument_judges_what_was_done(server: RealServer) -> None:
    episode = play(server, saying(LOOK + LOOK, "I have seen enough."), "watched")
    assert told(episode)[-1] == "judged"
    assert (episode.results[-1].reward, episode.results[-1].done) == (2.0, True)
