"""Whose secrets the processes of episodes hold, wherever in their memory."""

import asyncio
import json

import pytest
from tests.support.hosting import Player, hosting, observed
from tests.support.interacting import spec
from tests.trust.permitted import JUDGE, policy

from warren_schemas.episode import EpisodeSpec

ANN, BOB = "WARREN_SECRET_ANNS", "WARREN_SECRET_BOBS"
BOUND = policy(
    secrets={
        "ANNS": {"owners": ["ann"], "environments": ["searching"], "urls": [JUDGE]},
        "BOBS": {"owners": ["bob"], "environments": ["searching"]},
    },
    services=[{"url": JUDGE}],
)


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANN, "sk-of-ann-0123456789")
    monkeypatch.setenv(BOB, "sk-of-bob-0123456789")


async def known(player: Player) -> list[str]:
    return json.loads((await observed(player.reset())).messages[0][1])


@pytest.mark.parametrize("isolation", ["Searching", "Apart"])
async def test_a_process_holds_the_secrets_of_its_own_episode_alone(isolation: str) -> None:
    async with hosting(f"tests.trust.environments:{isolation}", policy=BOUND) as host:
        anns = spec("searching", run_owner="ann", secrets=("ANNS",))
        by_key = anns.model_copy(
            update={"secrets": (), "environment_config": {"key_variable": ANN}}
        )
        bobs = spec("searching", run_owner="bob", secrets=("BOBS",))
        for_none = spec("searching", run_owner="eve")

        async def play(of: Player, owners: list[str]) -> None:
            assert await known(of) == owners
            await observed(of.step("go on"))
            await observed(of.step("end"))

        wanted: list[tuple[EpisodeSpec, list[str]]] = [
            (anns, ["ann"]),
            (by_key, ["ann"]),
            (bobs, ["bob"]),
            (for_none, []),
        ]
        for _ in range(2):  # side by side, and in processes that have played
            await asyncio.gather(
                *(play(Player(host, of), owners) for of, owners in wanted for _ in range(3))
            )
        for of, owners in wanted:
            await play(Player(host, of), owners)
