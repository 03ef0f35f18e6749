"""Game classes of OpenTinker's shape run unchanged: parity row 36."""

from tests.support.forked_hosts import hosted
from tests.support.hosting import Player, observed, refused
from tests.support.interacting import spec

from warren_schemas.episode import FailureKind, TaskRef

GAMES = "tests.support.games"


async def test_row_36_a_game_class_is_hosted_as_it_is() -> None:
    async with hosted(f"{GAMES}:HighLowGame") as host:
        assert host.description
        assert host.description.name == "highlow"
        player = Player(host, spec("highlow", environment_config={"high": 1, "max_steps": 2}))
        first = await observed(player.reset())
        assert first.messages[0] == ["system", "Guess."]
        shown = first.messages[1][1]
        assert shown.startswith("Begin.\n\nfrom 0 to 1, hint ")
        hidden = shown[-1]
        wrong = await observed(player.step("?"))
        assert (wrong.reward, wrong.is_over, wrong.messages) == (0.0, False, [["user", "no"]])
        right = await observed(player.step(hidden))
        assert (right.reward, right.is_over, right.is_truncated) == (1.0, True, False)
        assert right.metrics == {"found": 1.0, "truncated": 0.0}


async def test_row_36_a_game_that_runs_out_is_truncated() -> None:
    async with hosted(f"{GAMES}:HighLowGame") as host:
        player = Player(host, spec("highlow", environment_config={"max_steps": 1}))
        await observed(player.reset())
        assert (await observed(player.step("?"))).is_truncated


async def test_members_of_a_group_begin_alike_although_the_game_uses_global_chance() -> None:
    async with hosted(f"{GAMES}:HighLowGame") as host:
        config = {"high": 10**9}
        members = [Player(host, spec("x", environment_config=config, member=m)) for m in range(3)]
        shown = {(await observed(player.reset())).digest for player in members}
        other = Player(host, spec("x", environment_config=config, task=TaskRef(index=1)))
        assert len(shown) == 1
        assert (await observed(other.reset())).digest not in shown


async def test_a_game_may_make_its_own_start_and_first_message() -> None:
    async with hosted(f"{GAMES}:StatefulGame") as host:
        player = Player(host, spec("stateful"))
        assert (await observed(player.reset())).messages[1][1] == "The number is 9."


async def test_an_unknown_key_of_a_game_is_refused() -> None:
    async with hosted(f"{GAMES}:HighLowGame") as host:
        player = Player(host, spec("highlow", environment_config={"hihg": 3}))
        refusal = await refused(player.reset())
        assert refusal.kind is FailureKind.ENVIRONMENT_CONFIG
        assert "hihg: unknown key; did you mean high?" in refusal.reason
