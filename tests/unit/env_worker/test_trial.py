"""When episodes may wait for the policy's words without a process."""

from dataclasses import replace

import pytest
from tests.support.interacting import spec
from tests.support.waiting_turns import Closing, Quick

from warren.environment import Env
from warren_env_worker.host.forked.stateless.trial import (
    MAX_SLOW,
    N_EPISODES,
    N_REPEATS,
    QUICK_S,
    Trial,
)
from warren_env_worker.host.protocol import Call, Observed, Refused, Start
from warren_env_worker.host.request import start_of
from warren_env_worker.permissions.granting import granted
from warren_env_worker.permissions.sealed import Sealed
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import TRUSTING

OF = spec("quick")
START: Start = start_of(OF, granted(TRUSTING, OF))


class Forgetful(Quick):
    replayable = False


def play(trial: Trial, n_episodes: int, *, n_calls: int = 2, is_silent: bool = True) -> None:
    for _ in range(n_episodes):
        trial.ended(n_calls=n_calls, busy_s=0.0, is_silent=is_silent)


def repeat(trial: Trial) -> bool:
    """Whether `reset` is to be tried again; then it is, and goes well."""
    call = trial.repeat(Call(1, 7, START), "digest")
    if call is not None:
        trial.repeated(Observed(call.id))
    return call is not None


def passed(environment: type[Env] = Quick, *, reuses: bool = True) -> Trial:
    trial = Trial(environment, reuses=reuses)
    play(trial, N_EPISODES)
    for _ in range(N_REPEATS):
        repeat(trial)
    return trial


def test_it_takes_many_episodes_and_then_resets_that_show_the_same() -> None:
    trial = Trial(Quick, reuses=True)
    play(trial, N_EPISODES - 1)
    assert not repeat(trial)
    play(trial, 1)
    for _ in range(N_REPEATS):
        assert not trial.is_passed
        assert repeat(trial)
    assert trial.is_passed
    assert not repeat(trial)


@pytest.mark.parametrize("environment", [Closing, Forgetful])
def test_classes_that_close_or_are_not_replayable_never_pass(environment: type[Env]) -> None:
    assert not passed(environment).is_passed


def test_the_strict_way_never_passes() -> None:
    assert not passed(reuses=False).is_passed


@pytest.mark.parametrize(("n_calls", "is_silent"), [(3, True), (2, False)])
def test_several_turns_or_words_begin_it_anew(n_calls: int, is_silent: bool) -> None:
    trial = Trial(Quick, reuses=True)
    play(trial, N_EPISODES - 1)
    play(trial, 1, n_calls=n_calls, is_silent=is_silent)
    play(trial, N_EPISODES - 1)
    assert not repeat(trial)


def test_slow_episodes_begin_it_anew() -> None:
    trial = Trial(Quick, reuses=True)
    for _ in range(N_EPISODES):
        trial.ended(n_calls=2, busy_s=2 * QUICK_S, is_silent=True)
    assert not repeat(trial)


def test_who_turns_slow_later_fails_but_not_for_one_hold_up() -> None:
    trial = passed()
    for _ in range(3):
        for _ in range(MAX_SLOW):
            trial.worked(n_calls=10, busy_s=20 * QUICK_S, is_silent=True)
        trial.worked(n_calls=10, busy_s=0.0, is_silent=True)
    assert trial.is_passed
    for _ in range(MAX_SLOW + 1):
        trial.worked(n_calls=10, busy_s=20 * QUICK_S, is_silent=True)
    assert not trial.is_passed


def test_after_a_failure_it_takes_twice_as_long() -> None:
    trial = passed()
    trial.failed()
    assert not trial.is_passed
    play(trial, 2 * N_EPISODES - 1)
    assert not repeat(trial)
    play(trial, 1)
    assert repeat(trial)


def test_a_reset_that_shows_something_else_fails_it() -> None:
    trial = Trial(Quick, reuses=True)
    play(trial, N_EPISODES)
    trial.repeated(Refused(1, FailureKind.NOT_REPLAYABLE, "it showed something else"))
    assert not repeat(trial)


def test_episodes_with_secrets_or_demonstrations_are_never_played_so() -> None:
    trial = passed()
    assert trial.suits(START)
    assert not trial.suits(replace(START, demonstrates=True))
    assert not trial.suits(replace(START, sealed=Sealed.of({"KEY": "sk-0123456789"}, {})))
