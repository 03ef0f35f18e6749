"""The environment `ors` on the real servers of `ors-sdk` 0.1.0 and `openreward` 0.1.167, which are killed in the middle of episodes."""

import pytest
from tests.ecosystems.ors.serving import LOOK, call, play, told
from tests.ecosystems.real_server import RealServer, killing, saying
from tests.support.patience import PATIENCE_S, several_waits

from warren.environment import Context, NotReplayable
from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.environments.ors.server import OrsFailed
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, acting
from warren_schemas.config import ToolFormat

pytestmark = pytest.mark.server


@pytest.mark.shows("ORS client", "tasks", "tools", "several turns")
def test_an_episode_from_the_prompt_to_the_end(server: RealServer) -> None:
    episode = play(server, saying(LOOK + call("look", place=3), call("open", code="1003")))
    assert told(episode) == ["1 (look 1)", "3 (look 2)", "open"]
    assert [result.reward for result in episode.results] == [0.2, 1.0]
    assert episode.results[-1].done
    assert "The digit at a place" in episode.messages[0].content


@pytest.mark.shows("ORS client", "tasks")
async def test_tasks_have_the_ids_that_the_server_gives_them(server: RealServer) -> None:
    environment = Ors(server.url, "vault", patience_s=PATIENCE_S)
    environment.wants_task_ids = True
    tasks = await environment.tasks("test")
    assert [environment.id_of(task) for task in tasks][:2] == ["test-0", "test-1"]
    environment.context = Context.derive(0, "test", 7)
    await environment.reset(7, environment.context)
    await environment.close()
    assert environment.task_id == "test-7"


@pytest.mark.parametrize(
    ("start", "stop", "played"),
    [(None, 2, [0, 1]), (1, 4, [1, 2, 3]), (-2, None, [18, 19]), (3, -15, [3, 4])],
)  # fmt: skip
async def test_tasks_are_chosen_by_slices(
    server: RealServer, start: int | None, stop: int | None, played: list[int]
) -> None:
    environment = Ors(server.url, "vault", start=start, stop=stop, patience_s=PATIENCE_S)
    tasks = await environment.tasks("train")
    assert list(tasks) == played
    environment.context = Context.derive(0, "train", tasks[0])
    await environment.reset(tasks[0], environment.context)
    await environment.close()
    assert environment.task_id == f"train-{tasks[0]}"


@pytest.mark.parametrize("form", [ToolFormat.XML, ToolFormat.CODE])
def test_the_other_formats_of_calls(server: RealServer, form: ToolFormat) -> None:
    said = {
        ToolFormat.XML: "<tool_call><function=look><parameter=place>3</parameter></function></tool_call>",
        ToolFormat.CODE: "```look\n3\n```",
    }[form]
    assert told(play(server, saying(said, "done"), tool_format=form)) == ["3 (look 1)"]


def test_what_the_server_refuses_is_said_to_the_policy(server: RealServer) -> None:
    episode = play(server, saying(call("look", place="x"), call("loook"), "I give up."))
    assert "validation error" in told(episode)[0]
    assert told(episode)[1] == "Error: there is no tool 'loook'; did you mean look?"
    assert episode.results[-1].truncated
    assert [result.reward for result in episode.results] == [None, None, None]


@pytest.mark.shows("ORS client", "images", "tools")
def test_images_long_answers_tools_of_a_task_and_slow_calls(server: RealServer) -> None:
    actions = (call("much"), call("extra"), call("slow"), "done")
    episode = play(server, saying(*actions), "trouble", ids=("train-3",))
    prompt = episode.messages[1]
    assert (prompt.content, [image.media_type for image in prompt.images]) == (
        "Look.",
        ["image/png"],
    )
    assert told(episode) == ["é " * 2100 + "end", "extra", "at last"]


@pytest.mark.shows("ORS client", "secrets")
def test_secrets_reach_an_environment_in_the_form_that_it_reads(
    server: RealServer, package: str
) -> None:
    key, form = "WARREN_SECRET_TOKEN", "body" if package == "ors" else "header"
    with acting(Permissions(is_trusted=True, keys=(KeyGrant(key, "sk-0123456789", None),))):
        secrets = {"secrets": {"TOKEN": key}}
        sent = play(server, saying(call("secret"), "done"), "trouble", secrets_in=form, **secrets)
    assert told(sent) == ["TOKEN: 9876543210-ks"]


def test_secrets_in_the_other_form_never_arrive(server: RealServer, package: str) -> None:
    """0.1.0 of `ors-sdk` passes the header over, and `openreward` refuses a body that has them."""
    key = "WARREN_SECRET_TOKEN"
    with acting(Permissions(is_trusted=True, keys=(KeyGrant(key, "sk-0123456789", None),))):
        secrets, policy = {"secrets": {"TOKEN": key}}, saying(call("secret"), "done")
        if package == "ors":
            assert told(play(server, policy, "trouble", **secrets)) == [""]
        else:
            with pytest.raises(OrsFailed, match="it can't be reached, or it failed"):
                play(server, policy, "trouble", secrets_in="body", **secrets)


def test_a_tool_that_raises_fails_the_episode(server: RealServer) -> None:
    with pytest.raises(OrsFailed, match="the tool kaput failed: kaput"):
        play(server, saying(call("kaput")), "trouble")


@several_waits
@pytest.mark.shows("ORS client", "foreign process killed", "retries")
def test_a_killed_server_is_waited_for_and_its_session_played_anew(server: RealServer) -> None:
    actions = [LOOK, call("look", place=1), call("look", place=2), call("open", code="1003")]
    undisturbed = play(server, saying(*actions))
    for before in range(len(actions)):
        episode = play(server, killing(server, actions, before=before))
        assert episode.messages == undisturbed.messages
        assert episode.reward == undisturbed.reward


@pytest.mark.shows("ORS client", "retries")
def test_a_killed_server_that_goes_on_otherwise_fails_the_episode(server: RealServer) -> None:
    with pytest.raises(NotReplayable, match="answered call 1"):
        play(server, killing(server, [LOOK, LOOK], before=1), "clock")


def test_a_session_is_deleted_when_its_episode_is_over_or_has_failed(server: RealServer) -> None:
    before = server.log.read_text().count("session_deleted")
    play(server, saying(LOOK, "done"))
    with pytest.raises(OrsFailed):
        play(server, saying(call("kaput")), "trouble")
    assert server.log.read_text().count("session_deleted") == before + 2
