"""`warren env check`: it finds what is wrong and leaves in peace what is right."""

import pytest
from tests.support import checked

from warren_env_worker.check.checks import run_checks
from warren_env_worker.check.finding import Mark
from warren_env_worker.check.probe import Probe
from warren_env_worker.environments.arithmetic import Arithmetic
from warren_env_worker.environments.echo import Echo
from warren_env_worker.environments.gomoku import Gomoku
from warren_env_worker.environments.guess import Guess
from warren_env_worker.host.protocol import Config


@pytest.mark.parametrize(
    ("environment", "config"),
    [
        (checked.Fine, {}),
        (Guess, {}),
        (Arithmetic, {}),
        (Echo, {}),
        (checked.Choosing, {}),
        (checked.Larger, {}),
        (checked.Ranking, {}),
        (Gomoku, {"size": 4, "win": 3, "opponent": "random"}),
    ],
)
def test_what_is_right_passes(environment: type[checked.Fine], config: Config) -> None:
    findings = list(run_checks(Probe(environment, config, "train")))
    assert len(findings) == 11
    assert [f for f in findings if f.mark is Mark.BAD] == []


def test_ids_that_several_tasks_have_are_found() -> None:
    findings = {f.what: f for f in run_checks(Probe(checked.Renamed, {}, "train"))}
    found = findings["no two tasks have the same id"]
    assert found.mark is Mark.BAD
    assert "2 have 'a'; id_of() must give each its own" in found.told


@pytest.mark.parametrize(
    ("environment", "mark", "told"),
    [
        (checked.Fine, Mark.GOOD, "it has no score_group(): each is rewarded by itself"),
        (checked.Ranking, Mark.GOOD, "from 0 to 31 in a group of 4"),
        (checked.Dividing, Mark.BAD, "ZeroDivisionError"),
        (
            checked.Nameless,
            Mark.BAD,
            "a sequence of 4 rewards, one for each episode; it returned 1",
        ),
    ],
)
def test_groups_are_compared_large_and_small(
    environment: type[checked.Fine], mark: Mark, told: str
) -> None:
    findings = {f.what: f for f in run_checks(Probe(environment, {}, "train"))}
    found = findings["groups can be compared"]
    assert found.mark is mark
    assert told in found.told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "what", "told"),
    [
        (checked.Leaky, "holds no answer", "stands in all of 6 prompts"),
        (checked.Hinting, "holds no answer", "the word after 'answer' of the prompt ("),
        (checked.HintingAloud, "holds no answer", "is rewarded as the answer in all of 12 tasks"),
        (checked.Fixed, "holds no answer", "('4') is rewarded as the answer in all of 12 tasks"),
        (checked.Endless, "episodes end", "an episode never ends: it goes on after 256 turns"),
        (checked.Generous, "rewarded differently", "the reward is constant: 1 in all of 40"),
        (checked.GlobalChance, "the same seed", "task 0 differs at its reset"),
        (checked.GlobalChance, "global random state", "draws from the global `random`"),
        (checked.Inverted, "beat junk", "junk scores 1 at best"),
        (checked.Fragile, "beat junk", "the answer '' makes it fail: IndexError"),
        (checked.Hanging, "it can be played", "in reset: time.sleep(3600)"),
        (checked.Stubborn, "it can be played", "in step: time.sleep(3600)"),
        (checked.Awaiting, "it can be played", "in _fetch: await asyncio.sleep(3600)"),
        (checked.Hoarding, "memory stays flat", "something is kept"),
        (checked.Unscored, "it can be played", "step() returned the reward nan"),
    ],
)
def test_what_is_wrong_is_found(environment: type[checked.Fine], what: str, told: str) -> None:
    findings = list(run_checks(Probe(environment, {}, "train")))
    (found,) = [f for f in findings if what in f.what]
    assert found.mark is Mark.BAD
    assert told in found.told
    checked.Hoarding.kept.clear()


@pytest.mark.slow
def test_a_call_that_leaves_little_of_its_limit_is_found() -> None:
    of_limits = "calls are well within their limits"

    def begin(what: str) -> None:
        checked.Slow.is_slow = what == of_limits

    findings = {f.what: f for f in run_checks(Probe(checked.Slow, {}, "train"), begin)}
    assert findings[of_limits].mark is Mark.BAD
    assert "less than half of the limit of step() is left" in findings[of_limits].told


def test_a_constant_reward_of_0_without_demonstrations_is_named_and_no_fault() -> None:
    findings = {f.what: f for f in run_checks(Probe(checked.Hopeless, {}, "train"))}
    found = findings["answers are rewarded differently"]
    assert found.mark is Mark.UNKNOWN
    assert "the reward is constant: 0 in all of 34 episodes" in found.told
