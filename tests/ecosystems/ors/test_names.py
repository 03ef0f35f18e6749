"""Environments with their owner's name, as OpenReward names them: both real servers answer these paths with redirects."""

import pytest
from tests.ecosystems.ors.cutting import cutting
from tests.ecosystems.ors.serving import LOOK, call, play, told
from tests.ecosystems.real_server import RealServer, killing, saying
from tests.support.patience import PATIENCE_S

from warren.environment import Context
from warren_env_worker.environments.ors.environment import Ors

pytestmark = pytest.mark.server
NAME = "GeneralReasoning/Vaults"


@pytest.mark.shows("ORS client", "tasks", "tools")
def test_an_owners_environment_is_the_first_of_the_server(server: RealServer) -> None:
    episode = play(server, saying(LOOK, call("open", code="1003")), NAME, ids=("train-3",))
    assert told(episode) == ["1 (look 1)", "open"]
    assert episode.reward == 1.1


async def test_where_it_is_is_asked_once_in_an_episode(server: RealServer) -> None:
    async with cutting(server.url, None) as proxy:
        environment = Ors(proxy.url, NAME, patience_s=PATIENCE_S)
        environment.context = Context.derive(1)
        await environment.reset(3, environment.context)
        for _ in range(3):
            await environment.step(LOOK)
        await environment.close()
    bare = ["/create_session", "/create", "/task_tools", "/delete", "/delete_session"]
    assert [path for path, _ in proxy.asked if path.count("/") == 1] == bare
    assert len(proxy.calls) == 3


@pytest.mark.shows("ORS client", "foreign process killed")
def test_its_episode_goes_on_after_a_kill(server: RealServer) -> None:
    actions = [LOOK, call("look", place=1), call("open", code="1003")]
    episode = play(server, killing(server, actions, before=1), NAME)
    assert told(episode) == ["1 (look 1)", "0 (look 2)", "open"]
