"""`warren ors-server` where things break: it is killed, its environments' processes die, clients leave."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.ecosystems.ors_server.serving import OrsServer, ors_server
from tests.support.patience import PATIENCE_S
from tests.support.processes import kill_and_wait

import warren.testing
from warren.connection.sse import SseParser
from warren.environment import NotReplayable
from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.environments.ors.server import OrsFailed

pytestmark = [pytest.mark.ecosystem, pytest.mark.server]


def act(word: str) -> str:
    return f"<tool_call>{json.dumps({'name': 'act', 'arguments': {'action': word}})}</tool_call>"


def counter(folder: Path, **config: object) -> dict[str, Any]:
    return {"config": {"file": str(folder / "processes"), **config}, "max_turns": 9}


def played(server: OrsServer, *actions: str, **breaking: Any) -> warren.testing.Episode:
    """`breaking` is done before the action of its number."""
    left = iter(enumerate(actions))

    def policy(_: object) -> str:
        number, action = next(left)
        breaking.get(f"before_{number}", lambda: None)()
        return act(action)

    return warren.testing.play(Ors(server.url, "counter", patience_s=PATIENCE_S), policy)


def told(episode: warren.testing.Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role == "tool"]


@pytest.mark.shows("ORS server", "env worker killed")
def test_a_killed_server_costs_nothing(tmp_path: Path) -> None:
    with ors_server(tmp_path, counter=counter(tmp_path)) as server:

        def killed() -> None:
            server.kill()
            server.start()

        episode = played(server, "a", "b", "end", before_2=killed)
        assert told(episode) == ["1 a", "2 b", "3 end"]
        assert episode.reward == 3.0


@pytest.mark.shows("ORS server", "retries")
def test_what_cannot_be_repeated_fails_by_its_name(tmp_path: Path) -> None:
    with ors_server(tmp_path, counter=counter(tmp_path, replays=False)) as server:

        def killed() -> None:
            server.kill()
            server.start()

        with pytest.raises(NotReplayable):
            played(server, "a", "b", before_1=killed)


@pytest.mark.shows("ORS server", "foreign process killed")
def test_a_process_that_dies_is_replaced_and_its_episode_goes_on(tmp_path: Path) -> None:
    with ors_server(tmp_path, counter=counter(tmp_path)) as server:

        def killed() -> None:
            kill_and_wait([int(pid) for pid in (tmp_path / "processes").read_text().split()][-1:])

        assert told(played(server, "a", "b", "end", before_2=killed)) == ["1 a", "2 b", "3 end"]
        with pytest.raises(OrsFailed, match="the tool act failed"):
            played(server, "a", "crash")
        assert told(played(server, "a", "end")) == ["1 a", "2 end"]


async def asked(
    client: aiohttp.ClientSession, path: str, body: object, session: str = "mine"
) -> tuple[int, Any]:
    async with client.post(path, json=body, headers={"X-Session-ID": session}) as answer:
        text = await answer.read()
        if answer.content_type == "text/event-stream":
            return answer.status, [(e.name, e.data) for e in SseParser().feed(text)]
        return answer.status, json.loads(text)


@pytest.mark.shows("ORS server", "retries")
async def test_limits_resume_and_idle_sessions(tmp_path: Path) -> None:
    options = ("--capacity", "2", "--idle-s", "2")
    with ors_server(tmp_path, *options, counter=counter(tmp_path)) as server:
        async with aiohttp.ClientSession(server.url) as client:
            task = {"split": "train", "index": 0, "env_name": "Counter"}
            assert await asked(client, "create", task) == (200, {"sid": "mine"})
            assert (await asked(client, "create", task))[0] == 400  # it is there already
            assert (await asked(client, "create", {**task, "index": 5000}, "other"))[0] == 400
            assert (await asked(client, "create", {**task, "x": 1}, "other"))[0] == 422
            call: dict[str, object] = {"name": "act", "input": {"action": "a"}}
            _, events = await asked(client, "counter/call", call)
            _, again = await asked(client, "call", {**call, "task_id": events[0][1]})
            assert again == events  # it did not run twice
            assert (await asked(client, "call", {**call, "task_id": "x"}))[1] == [
                ("error", "unknown task_id")
            ]
            _, wrong = await asked(client, "call", {"name": "act", "input": {"action": 1}})
            assert json.loads(wrong[-1][1])["reason"] == "input_validation"
            _, end = await asked(client, "call", {"name": "act", "input": {"action": "end"}})
            assert json.loads(end[-1][1])["output"]["metadata"]["truncated"] is False
            _, late = await asked(client, "call", call)
            assert json.loads(late[-1][1])["reason"] == "episode_finished"
            assert (await asked(client, "echo/call", call))[0] == 404  # another environment's path
            for name in ("one", "two"):
                assert (await asked(client, "create", task, name))[0] == 200
            assert (await asked(client, "create", task, "three"))[0] == 429
            while (await asked(client, "create", task, "three"))[0] == 429:
                pass  # until the first two are idle for long enough
            assert (await asked(client, "ping", None, "one"))[0] == 404
