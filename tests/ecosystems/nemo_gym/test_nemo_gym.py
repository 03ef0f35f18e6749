"""The environment `nemo_gym` on the real resource servers of `nemo-gym` 0.4.0, which are killed in the middle of episodes."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.keyed import KEY
from tests.ecosystems.nemo_gym.serving import call, play, rows, server, told
from tests.ecosystems.real_server import RealServer, killing, saying

from warren.environment import NotReplayable, TaskError
from warren_env_worker.environments.nemo_gym.connection import GymFailed
from warren_env_worker.environments.nemo_gym.stepping import NemoGymnasium
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, acting
from warren_schemas.config import ToolFormat

__all__ = ["server"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
WORKPLACE, COUNTER = "workplace_assistant", "example_session_state_mgmt"
WEATHER = "example_mcp_weather"
SECRET = "WARREN_SECRET_GYM"
COUNTED = [call("increment_counter", count=1), call("increment_counter", count=2)]
COUNT = [*COUNTED, call("get_counter_value"), "It is 6."]


def right(row: dict[str, Any]) -> list[str]:
    """The calls that the row wants, one in each turn, and words that end it."""
    calls = [(each["name"], json.loads(each["arguments"])) for each in row["ground_truth"]]
    return [*(call(name, **arguments) for name, arguments in calls), "Done."]


@pytest.mark.shows("NeMo Gym", "tasks", "tools", "several turns")
@pytest.mark.parametrize("index", range(5))
def test_right_calls_of_workplace_assistant_are_rewarded_and_none_are_not(
    server: RealServer, index: int
) -> None:
    actions = right(rows(WORKPLACE)[index])
    episode = play(server, "workplace", WORKPLACE, saying(*actions), index)
    assert (episode.reward, episode.results[-1].done) == (1.0, True)
    assert episode.results[-1].metrics["tool_calls"] == len(actions) - 1
    assert "company_directory_find_email_address" in episode.messages[0].content
    assert play(server, "workplace", WORKPLACE, saying("Done."), index).reward == 0.0


@pytest.mark.shows("NeMo Gym", "tools", "retries", "foreign process killed")
def test_tools_by_mcp_alone_are_called_in_the_session_also_where_it_is_lost(
    server: RealServer,
) -> None:
    """The verdict wants the tool called in its own session; a server that is started anew takes the old token for an empty one."""
    sentence = "The weather in Paris is sunny and 72 F."
    actions = [call("get_weather", city="Paris"), sentence]
    undisturbed = play(server, "weather", WEATHER, saying(*actions))
    assert "Get a deterministic weather report for a city." in undisturbed.messages[0].content
    assert (told(undisturbed), undisturbed.reward) == ([sentence], 1.0)
    assert undisturbed.results[-1].metrics["tool_calls"] == 1.0
    for before in range(len(actions)):
        episode = play(server, "weather", WEATHER, killing(server, actions, before=before))
        assert (episode.messages, episode.reward) == (undisturbed.messages, 1.0)
    assert play(server, "weather", WEATHER, saying(sentence)).reward == 0.0


def test_what_a_tool_by_mcp_does_not_take_is_said_to_the_policy(server: RealServer) -> None:
    said = (call("get_weather", town="Paris"), call("get_wether"), "I give up.")
    episode = play(server, "weather", WEATHER, saying(*said))
    wrong, unknown = told(episode)
    assert wrong.startswith("Error: Error executing tool get_weather: 1 validation error")
    assert unknown == "Error: there is no tool 'get_wether'; did you mean get_weather?"
    assert episode.results[-1].metrics["tool_errors"] == 2.0


def test_what_a_tool_does_not_take_is_said_to_the_policy(server: RealServer) -> None:
    said = (call("email_get_email_information_by_id", nothing=1), call("emale"), "I give up.")
    wrong, unknown = told(play(server, "workplace", WORKPLACE, saying(*said)))
    assert wrong.startswith('{"output":"Error executing tool')
    assert unknown.startswith("Error: there is no tool 'emale'; there are:")
    refused = play(server, "counter", COUNTER, saying(call("increment_counter", count="x"), "?"))
    assert told(refused)[0].startswith('{"detail":[{"type":"int_parsing"')
    assert refused.results[-1].metrics["tool_errors"] == 1.0


@pytest.mark.parametrize("form", [ToolFormat.XML, ToolFormat.CODE])
def test_the_other_formats_of_calls(server: RealServer, form: ToolFormat) -> None:
    said = {
        ToolFormat.XML: "<tool_call><function=increment_counter><parameter=count>3</parameter></function></tool_call>",
        ToolFormat.CODE: "```increment_counter\n3\n```",
    }[form]
    episode = play(server, "counter", COUNTER, saying(said, "6"), tool_format=form)
    assert (told(episode), episode.reward) == (['{"success":true}'], 1.0)


@pytest.mark.shows("NeMo Gym", "tasks")
def test_answers_to_multiple_choice_are_judged_in_one_turn(server: RealServer) -> None:
    for index, row in enumerate(rows("mcqa")):
        thought = r"<think>Is it \boxed{Z}?</think>"
        said = rf"{thought}It is \boxed{{{row['expected_answer']}}}"
        episode = play(server, "questions", "mcqa", saying(said), index)
        assert (episode.reward, episode.results[-1].done) == (1.0, True)
    assert play(server, "questions", "mcqa", saying(r"\boxed{Z}")).reward == 0.0


@pytest.mark.shows("NeMo Gym", "images")
def test_questions_about_images(server: RealServer) -> None:
    episode = play(server, "circles", "circle_count", saying(r"\boxed{10}"))
    assert [image.media_type for image in episode.messages[1].images] == ["image/png"]
    metrics = episode.results[-1].metrics
    assert metrics == {"predicted_count": 10.0, "expected_count": 10.0, "correct": 1.0}
    assert episode.reward == 1.0


@pytest.mark.shows("NeMo Gym", "secrets")
def test_a_key_reaches_the_server_and_nobody_else(
    server: RealServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where its session is seeded anew."""
    caplog.set_level(logging.DEBUG)
    policy = killing(server, COUNT, before=1)
    with acting(Permissions(is_trusted=True, keys=(KeyGrant(SECRET, KEY, None),))):
        episode = play(server, "keyed", COUNTER, policy, key_variable=SECRET)
        with pytest.raises(GymFailed) as refused:
            play(server, "keyed", COUNTER, saying("?"))
    assert (told(episode)[-1], episode.reward) == ('{"count":6}', 1.0)
    assert f"{server.url}keyed/ lost a session" in caplog.text
    assert KEY not in caplog.text + repr(episode) + repr(refused.value)


def test_rows_of_another_server_are_refused(server: RealServer) -> None:
    with pytest.raises(TaskError, match=r"in seed_session: body.initial_count: Field required"):
        play(server, "counter", "mcqa", saying("?"))


@pytest.mark.shows("NeMo Gym", "retries", "foreign process killed")
def test_a_killed_server_is_waited_for_and_its_session_played_anew(server: RealServer) -> None:
    """It takes the cookie of a session that it does not know, and would count on from 0."""
    undisturbed = play(server, "counter", COUNTER, saying(*COUNT))
    assert (told(undisturbed)[-1], undisturbed.reward) == ('{"count":6}', 1.0)
    for before in range(len(COUNT)):
        episode = play(server, "counter", COUNTER, killing(server, COUNT, before=before))
        assert episode.messages == undisturbed.messages
        assert episode.reward == undisturbed.reward


@pytest.mark.shows("NeMo Gym", "several turns", "foreign process killed")
def test_a_server_that_answers_every_turn(server: RealServer) -> None:
    actions = ["Paris.", "Two million.", "The Eiffel tower."]
    turns = "example_multi_turn_gymnasium"
    undisturbed = play(server, "turns", turns, saying(*actions), kind=NemoGymnasium)
    asked = [m.content for m in undisturbed.messages if m.role == "user"]
    assert asked == [
        rows(turns)[0]["responses_create_params"]["input"][0]["content"],
        *rows(turns)[0]["follow_ups"],
    ]
    assert [result.reward for result in undisturbed.results] == [0.0, 0.0, 1.0]
    assert undisturbed.results[-1].done
    policy = killing(server, actions, before=2)
    assert play(server, "turns", turns, policy, kind=NemoGymnasium) == undisturbed


@pytest.mark.shows("NeMo Gym", "retries")
def test_a_killed_server_that_goes_on_otherwise_fails_the_episode(
    server: RealServer, tmp_path: Path
) -> None:
    tools = [{"type": "function", "name": "who", "parameters": {"type": "object"}, "strict": False}]
    row = {"responses_create_params": {"input": "Who?", "tools": tools}}
    path = tmp_path / "clock.jsonl"
    path.write_text(json.dumps(row))
    who = call("who")
    with pytest.raises(NotReplayable, match=r"it answers call 1 \(who\) otherwise"):
        play(server, "clock", str(path), killing(server, [who, who], before=1))
