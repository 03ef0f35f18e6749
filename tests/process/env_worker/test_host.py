"""The host against well-behaved and hostile environments, in real child processes."""

import asyncio
import linecache
import os
import signal
from pathlib import Path

import pytest
from tests.support.environments import LIMIT_S
from tests.support.forked_hosts import hosting
from tests.support.hosting import Player, child_pids, observed, playing, refused
from tests.support.interacting import demonstration, spec
from tests.support.patience import STOP_S

from warren.environment import Context
from warren_broker.worker.child import Child
from warren_env_worker.host.protocol import Observed, Refused
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_schemas.episode import FailureKind, TaskRef

ERROR = FailureKind.ENVIRONMENT_ERROR
CRASHED = FailureKind.ENVIRONMENT_CRASHED
TIMEOUT = FailureKind.ENVIRONMENT_TIMEOUT
CONFIG = FailureKind.ENVIRONMENT_CONFIG


async def test_an_episode_from_reset_to_its_end() -> None:
    async with hosting("Letters", spawn_child=Child.spawn) as host:
        player = Player(host, spec(environment_config={"n_turns": 2}))
        first = await observed(player.reset())
        expected = Context.derive(1, "train", 0, 0).rng.choice("abcdefgh")
        assert first.messages == [["user", expected]]
        second = await observed(player.step(expected))
        assert (second.reward, second.is_over, second.metrics) == (1.0, False, {"right": 1.0})
        last = await observed(player.step("wrong"))
        assert (last.reward, last.is_over) == (0.0, True)


async def test_a_task_is_told_by_its_number_its_id_and_its_category() -> None:
    async with hosting("Sorted") as host:
        found: dict[int | None, tuple[str, str | None, str | None]] = {}
        for index in range(8):
            task = TaskRef(split="train", index=index)
            answer = await observed(Player(host, spec("sorted", task=task)).reset())
            found[answer.task_number] = (answer.messages[0][1], answer.task_id, answer.category)
    assert found.keys() == set(range(8)), "each once in an epoch"
    assert found == {
        number: (letter, f"letter {letter}", "vowel" if letter in "aeiou" else "consonant")
        for number, letter in enumerate("abcdefgh")
    }


async def test_an_environment_is_told_of_which_level_its_task_is_to_be() -> None:
    async with hosting("Levelled") as host:
        for level in (None, 0, 2):
            task = TaskRef(index=0, level=level)
            answer = await observed(Player(host, spec("levelled", task=task)).reset())
            assert answer.messages[0][1] == f"level {level}"


async def test_a_level_is_refused_where_the_environment_has_none() -> None:
    async with hosting("Letters") as host:
        answer = await refused(
            Player(host, spec("letters", task=TaskRef(index=0, level=1))).reset()
        )
    assert (answer.kind, answer.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
    assert "curriculum: letters has no levels" in answer.reason


async def test_members_of_a_group_start_alike_and_demonstrate_differently() -> None:
    async with hosting("Letters") as host:
        players = [Player(host, demonstration("letters", member)) for member in range(8)]
        first = [await observed(player.reset()) for player in players]
        assert len({answer.digest for answer in first}) == 1
        assert len({answer.demonstration for answer in first}) > 1
        again = await observed(Player(host, demonstration("letters", 0)).reset())
        assert again.demonstration == first[0].demonstration


HURRIED = f"took longer than {LIMIT_S:g} s; if it needs more, raise Limits.reset_s or Limits.step_s of its class"
"""Its limits are alike."""
TOO_LONG = f"took longer than {LIMIT_S:g} s; if it needs more, raise Limits.step_s of its class"
DEEDS = [
    ("raise_error", ERROR, "ValueError: no such move ("),
    ("raise_garbage", ERROR, "ValueError: ? is no text"),
    ("raise_exit", ERROR, "SystemExit: 3 ("),
    ("hang", TIMEOUT, f"in step(), a call {HURRIED}"),
    ("spin", TIMEOUT, f"in step(), a call {HURRIED}"),
    ("exit", CRASHED, "in step(), "),
    ("segfault", CRASHED, "SIGSEGV"),
    ("be_huge", ERROR, "Limits.observation_chars of its class is 200000"),
    ("be_nan", FailureKind.INVALID_REWARD, "step() returned the reward nan"),
    ("be_infinite", FailureKind.INVALID_REWARD, "step() returned the reward inf"),
    ("be_text", FailureKind.INVALID_REWARD, "of type str; expected a number or None"),
    ("have_bad_metric", ERROR, "the metric x = nan"),
    ("return_none", ERROR, "step() must return a StepResult; it returned NoneType"),
    ("return_tuple", ERROR, "step() must return a StepResult; it returned tuple"),
    ("speak_for_policy", ERROR, "role assistant"),
    ("be_unencodable", ERROR, "can't be sent"),
]


@pytest.mark.parametrize(("deed", "kind", "reason"), DEEDS, ids=[deed for deed, _, _ in DEEDS])
async def test_a_hostile_step_fails_its_own_episode_only(
    deed: str, kind: FailureKind, reason: str
) -> None:
    async with hosting("Hurried" if kind is TIMEOUT else "Hostile") as host:
        bystanders = [await playing(host, "hostile") for _ in range(8)]
        for player in bystanders:
            await observed(player.step("a"))
        guilty = await playing(host, "hostile", deed=deed)
        answers = [asyncio.ensure_future(player.step("a")) for player in bystanders[:4]]
        refusal = asyncio.ensure_future(guilty.step("evil"))
        answers += [asyncio.ensure_future(player.step("a")) for player in bystanders[4:]]
        assert (await refused(refusal)).kind is kind
        assert reason in (await refused(refusal)).reason
        assert "\n" not in (await refused(refusal)).reason
        assert len({(await observed(answer)).digest for answer in answers}) == 1
        for player in bystanders:
            assert (await observed(player.step("a"))).is_over


@pytest.mark.parametrize("deed", ["raise_error", "hang", "segfault", "return_none"])
async def test_a_hostile_reset_fails_its_own_episode_only(deed: str) -> None:
    async with hosting("Hurried" if deed == "hang" else "Hostile") as host:
        bystander = await playing(host, "hostile")
        config = {"deed": deed, "evil_reset": True}
        guilty = Player(host, spec("hostile", environment_config=config))
        refusal = await refused(guilty.reset())
        assert refusal.kind in (ERROR, TIMEOUT, CRASHED)
        await observed(bystander.step("a"))


async def test_the_reason_names_the_line_in_the_users_code() -> None:
    async with hosting("Hostile") as host:
        guilty = await playing(host, "hostile")
        reason = (await refused(guilty.step("evil"))).reason
    place = reason.rpartition("(")[2].rstrip(")")
    path, _, line = place.rpartition(":")
    assert path.endswith("tests/support/environments.py")
    assert "raise ValueError" in linecache.getline(path, int(line))


async def test_what_is_printed_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    async with hosting("Hostile") as host:
        player = await playing(host, "hostile", deed="print_much")
        assert (await observed(player.step("evil"))).is_over
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "x" * 100 in printed.err


async def test_a_slow_call_does_not_hold_back_what_is_finished(tmp_path: Path) -> None:
    async with hosting("Sleepy") as host:
        slow, *quick = [await playing(host, "sleepy") for _ in range(4)]
        answers = [asyncio.ensure_future(player.step("a")) for player in quick]
        slowest = asyncio.ensure_future(slow.step(f"until {tmp_path / 'woken'}"))
        for answer in answers:
            await observed(answer)
        assert not slowest.done()
        (tmp_path / "woken").touch()
        await observed(slowest)


async def test_a_long_limit_does_not_hide_a_short_one() -> None:
    """The first call may take an hour; the watch must still see that the second hangs."""
    async with hosting("SlowStarter") as host:
        player = await playing(host, "slow-starter")
        assert (await refused(player.step("evil"))).kind is TIMEOUT


async def test_async_environments_wait_side_by_side() -> None:
    async with hosting("Patient") as host:
        players = [await playing(host, "patient") for _ in range(100)]
        async with asyncio.timeout(STOP_S):  # one after the other they would take 100 s
            await asyncio.gather(*(observed(player.step("wait 1")) for player in players))


async def test_an_async_call_that_waits_too_long_fails_alone() -> None:
    async with hosting("Impatient") as host:
        slow, other = await playing(host, "impatient"), await playing(host, "impatient")
        before = child_pids()
        refusal = await refused(slow.step("wait 60"))
        told, _, place = refusal.reason.partition("; it waits at ")
        assert (refusal.kind, told) == (TIMEOUT, TOO_LONG)
        assert "await asyncio." in place
        await observed(other.step("a"))
        assert child_pids() == before


async def test_an_async_call_that_blocks_the_loop_is_found() -> None:
    async with hosting("Impatient") as host:
        evil, other = await playing(host, "impatient"), await playing(host, "impatient")
        waiting = asyncio.ensure_future(other.step("wait 0.2"))
        assert (await refused(evil.step("block"))).kind is TIMEOUT
        await observed(waiting)


async def test_a_close_that_hangs_takes_no_outcome_with_it() -> None:
    async with hosting("HangingClose") as host:
        player = await playing(host, "hanging-close", n_turns=1)
        other = await playing(host, "hanging-close", n_turns=2)
        assert (await observed(player.step("a"))).is_over
        await observed(other.step("a"))


async def test_when_nobody_knows_who_killed_the_child_each_is_tried_alone() -> None:
    async with hosting("Delayed") as host:
        players = [await playing(host, "delayed") for _ in range(6)]
        words = ["a", "a", "bomb", "a", "a", "a"]
        answers = await asyncio.gather(
            *(player.step(word) for player, word in zip(players, words, strict=True))
        )
    culprit = answers.pop(2)
    assert isinstance(culprit, Refused)
    assert culprit.kind is CRASHED
    assert all(isinstance(answer, Observed) for answer in answers)


async def test_a_killed_child_costs_nothing() -> None:
    async with hosting("Letters", spawn_child=Child.spawn) as host:
        players = [await playing(host, n_turns=3) for _ in range(10)]
        for player in players:
            await observed(player.step("a"))
        (child,) = child_pids()
        os.kill(child, signal.SIGKILL)
        answers = await asyncio.gather(*(observed(player.step("a")) for player in players))
        assert len({answer.digest for answer in answers}) == 1


async def test_an_episode_moves_to_another_host_by_replay() -> None:
    async with hosting("Letters") as first, hosting("Letters") as second:
        player = await playing(first)
        await observed(player.step("a"))
        assert (await observed(player.moved_to(second).step("b"))).reward is not None


async def test_an_episode_that_shows_something_else_is_not_replayable() -> None:
    async with hosting("Fickle") as first, hosting("Fickle") as second:
        player = await playing(first, "fickle")
        refusal = await refused(player.moved_to(second).step("b"))
        assert refusal.kind is FailureKind.NOT_REPLAYABLE
        assert "showed something else" in refusal.reason


async def test_an_environment_that_is_not_replayable_says_so() -> None:
    async with hosting("Unreplayable") as host:
        bystander = await playing(host, "unreplayable")
        guilty = await playing(host, "unreplayable", deed="exit")
        assert (await refused(guilty.step("evil"))).kind is CRASHED
        refusal = await refused(bystander.step("a"))
        assert refusal.kind is FailureKind.NOT_REPLAYABLE
        assert refusal.is_retryable


async def test_a_slot_that_is_closed_is_gone_from_the_child() -> None:
    async with hosting("Letters") as host:
        player = await playing(host)
        host.close(player.slot)
        reborn = player.moved_to(host)
        await observed(reborn.step("a"))


async def test_a_system_prompt_that_is_no_text_fails_its_own_episode_only() -> None:
    async with hosting("Prompting") as host:
        refusal = await refused(Player(host, spec("prompting")).reset())
        assert refusal.kind is ERROR
        assert refusal.reason == "system_prompt() must return a str or None; it returned dict"


async def test_of_what_was_dropped_nothing_is_rebuilt_after_a_death() -> None:
    """Neither those that were at work in the child, nor what hung there and had it killed."""
    async with hosting("Dropped") as host:
        wanted = await playing(host, "dropped")
        dropped = [await playing(host, "dropped") for _ in range(5)]
        waiting = [asyncio.ensure_future(player.step("wait 3600")) for player in dropped]
        assert (await observed(wanted.step("count"))).metrics == {"n_live": 6.0}
        waiting.append(asyncio.ensure_future(wanted.step("bomb")))
        for player in dropped:
            host.close(player.slot)
        await refused(waiting.pop())
        newcomer = await playing(host, "dropped")
        assert (await observed(newcomer.step("count"))).metrics == {"n_live": 1.0}
        for step in waiting:
            step.cancel()


async def test_tasks_are_drawn_alike_by_every_process() -> None:
    async with hosting("Tasked", n_processes=2) as host:
        specs = [spec("tasked", task=TaskRef(index=i)) for i in range(10) for _ in range(2)]
        shown = [await observed(Player(host, of).reset()) for of in specs]
    texts = [answer.messages[1][1] for answer in shown]
    assert texts[::2] == texts[1::2]
    epochs = sorted(texts[:10:2]), sorted(texts[10::2])
    assert epochs[0] == epochs[1] == [f"train {i}" for i in range(5)]
    assert shown[0].messages[0] == ["system", "Be brief."]


@pytest.mark.parametrize(
    ("config", "split", "reason"),
    [
        ({"n_taks": 3}, "train", "n_taks: unknown key; did you mean n_tasks?"),
        ({"n_tasks": "many"}, "train", "n_tasks: "),
        ({"n_tasks": 0}, "train", "the split 'train' has no tasks"),
        ({}, "missing", "no file for the split missing"),
    ],
)
async def test_a_config_that_does_not_fit_is_refused_for_good(
    config: dict[str, object], split: str, reason: str
) -> None:
    async with hosting("Tasked") as host:
        of = spec("tasked", environment_config=config, task=TaskRef(index=0, split=split))
        refusal = await refused(Player(host, of).reset())
        assert (refusal.kind, refusal.is_retryable) == (CONFIG, False)
        assert reason in refusal.reason


async def test_demonstrations_of_an_environment_without_any_are_refused_for_good() -> None:
    async with hosting("Tasked") as host:
        refusal = await refused(Player(host, demonstration("tasked")).reset())
        assert (refusal.kind, refusal.is_retryable) == (CONFIG, False)
        assert refusal.reason == "Tasked has no demonstrate()"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("NotAnEnvironment", "is no environment"),
        ("NoSteps", "lacks step()"),
        ("Leters", "did you mean Letters?"),
        ("Numbered", "Numbered.version must be of type str; it is of type int"),
        ("Unlimited", "Unlimited.limits must be of type Limits; it is of type dict"),
        ("Isolated", "Isolated.isolation is 'thread'; it must be one of process, episode, shared"),
    ],
)
async def test_what_is_no_environment_is_refused_at_the_start(reference: str, reason: str) -> None:
    async with hosting(reference, spawn_child=Child.spawn) as host:
        with pytest.raises(EnvironmentUnusable) as caught:
            await host.start()
        assert reason in str(caught.value)


async def test_children_end_with_the_host() -> None:
    async with hosting("Letters", n_processes=2, spawn_child=Child.spawn) as host:
        await asyncio.gather(playing(host), playing(host))
        assert len(child_pids()) == 2
    assert child_pids() == []


async def test_what_waits_for_a_child_that_is_killed_while_it_imports_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "killed_once.py").write_text(
        "import os, signal\n"
        "from pathlib import Path\n"
        "from tests.support.environments import Letters as Letters\n"
        f"seen = Path({str(seen)!r})\n"
        "if not seen.exists():\n"
        "    seen.touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path.cwd())])
    monkeypatch.setenv("PYTHONPATH", path, prepend=os.pathsep)
    async with hosting("killed_once:Letters", spawn_child=Child.spawn) as host:
        players = [Player(host, spec(member=member)) for member in range(3)]
        for answer in await asyncio.gather(*(player.reset() for player in players)):
            assert isinstance(answer, Observed)
    assert seen.exists()
