"""What only servers of `openreward` have: terminal tools, which the policy is not told of, prompts with roles, scores of groups."""

from collections.abc import Generator

import pytest
from tests.ecosystems.ors.serving import LOOK, call, play, serving, told
from tests.ecosystems.real_server import RealServer, killing, saying

from warren.environment import ChatMessage, ConfigError

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


@pytest.mark.shows("ORS client", "tasks", "several turns")
def test_a_conversation_is_shown_with_its_roles_and_goes_on(server: RealServer) -> None:
    """Also where the server is killed, and tells it again."""
    policy = killing(server, [LOOK, call("open", code="1003")], before=1)
    episode = play(server, policy, "dialogue", system_prompt="Think first.")
    system, *shown = episode.messages[:5]
    assert system.content.startswith("Think first.\n\nYou open vaults.\n\n# Tools")
    said = "\n".join(["<think>\nHm.\n</think>", "I look.", call("look", place=0)])
    assert shown == [
        ChatMessage(role="user", content="Open the vault."),
        ChatMessage(role="assistant", content=said, is_quoted=True),
        ChatMessage(role="tool", content="1"),
        ChatMessage(role="user", content="Go on."),
    ]
    assert [result.reward for result in episode.results] == [0.1, 1.0]


def test_scores_of_groups_are_left_out_only_where_the_config_says_so(server: RealServer) -> None:
    with pytest.raises(ConfigError, match="compared scores whole groups"):
        play(server, saying(LOOK), "compared")
    actions = (LOOK, call("open", code="1003"))
    assert play(server, saying(*actions), "compared", without_group_scores=True).reward == 1.1
    with pytest.raises(ConfigError, match="without_group_scores has no effect"):
        play(server, saying(LOOK), without_group_scores=True)
