"""The pods of an env worker that stops in order: none outlives it."""

from tests.support.fake_kubernetes import Fake
from tests.support.hosting import Player, hosting, observed
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.serviced_environments import become

from warren_env_worker.host_services.shared import hosting_services
from warren_schemas.operator_policy import OperatorPolicy

pytestmark = several_waits

CELLS = "tests.support.serviced_environments:Cells"
SANDBOX = {"image": "python:3.12", "tier": "kubernetes", "limits": {"memory_mib": 256}}


async def test_sessions_of_live_episodes_and_those_that_wait_end_with_the_last_host(
    fake: Fake,
) -> None:
    cluster, place = fake
    policy = OperatorPolicy(trusts_configs=True, kubernetes=place)
    async with hosting_services(PATIENCE_S):
        async with hosting_services(PATIENCE_S), hosting(CELLS, policy=policy) as host:
            player = Player(host, spec("cells", environment_config={"sandbox": SANDBOX}))
            await observed(player.reset())
            await become(lambda: len(cluster.created) >= 4)  # a probe's, two sessions', a spare one
        assert cluster.pods, "another hosts still, and may ask for what waits"
    assert cluster.pods == {}
