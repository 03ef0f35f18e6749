"""The checks themselves: each plays some episodes and says what it found.

- an episode ends
- the same seed shows the same, whatever the state of the global random generators
- the global random state is left alone
- answers are rewarded differently
- what it demonstrates scores best, and no junk raises or scores better
- a group of episodes can be compared, where the class does that
- what it shows does not hold the answer
- no two tasks have the same id
- every call is within its limits, with time to spare
- memory stays flat over many episodes
"""

import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from warren_env_worker.check.answer_leak import leak
from warren_env_worker.check.comparing import compares
from warren_env_worker.check.finding import Finding, Mark, bad, good, unknown
from warren_env_worker.check.probe import (
    Played,
    Policy,
    Probe,
    can_compare,
    can_demonstrate,
    demonstrated,
    saying,
    shuffle_global_chance,
)
from warren_env_worker.host.refusal import Refusal

N_TASKS = 6
N_FOR_MEMORY = 50
MAX_GROWTH_MIB = 32.0
ROOM = 0.5
"""A call that takes more of its limit than this is too slow for a busy machine."""
MAX_TURNS = 256
"""An episode that goes on for longer never ends, as far as this check can tell."""
MAX_ENDING_S = 20.0
"""How long the check for that may play."""

JUNK = (
    "", " ", "junk", "None", "nan", "-1", "0" * 5000, "{" * 2000, "\x00\x07", "ü🎲\u202e", "</think>",
    "<tool_call>", "```python\n", "[1, 2", "' OR 1=1 --", "\\boxed{", "9" * 400 + "!",
)  # fmt: skip

Check = Callable[[Probe, str], Finding]
Begin = Callable[[str], None]


def run_checks(probe: Probe, begin: Begin = lambda _: None) -> Iterator[Finding]:
    """One finding for each check, in their order; `begin` is told of each one before it runs.

    The others are left out if it can't be played, or if no episode ends.
    """
    for number, (what, check) in enumerate(CHECKS):
        begin(what)
        try:
            found = check(probe, what)
        except Refusal as refusal:
            found = bad(what, refusal.reason)
        yield found
        if found.mark is Mark.BAD and number < N_NEEDED:
            return


def _can_be_played(probe: Probe, what: str) -> Finding:
    probe.play(0, saying(JUNK[2:3]), max_turns=1)
    return good(what)


def _ends(probe: Probe, what: str) -> Finding:
    policies: dict[str, Policy] = {"junk": saying(JUNK)}
    if can_demonstrate(probe.environment):
        policies["demonstrations"] = demonstrated
    endless, until_s = list[str](), time.monotonic() + MAX_ENDING_S
    n_turns = 0
    for name, policy in policies.items():
        try:
            played = probe.play(0, policy, max_turns=MAX_TURNS, until_s=until_s)
        except Refusal:  # an end, too; other checks tell of it
            continue
        n_turns = max(n_turns, len(played.actions))
        if not played.is_over:
            endless.append(name)
    told = f"goes on after {n_turns} turns: step() returned neither done=True nor truncated=True"
    if len(endless) == len(policies):
        return bad(what, f"an episode never ends: it {told}")
    if endless:
        return unknown(what, f"with {endless[0]}, an episode {told}; a run's max_turns cuts it")
    return good(what)


def _differs(probe: Probe, what: str) -> Finding:
    rewards = _rewards(probe)
    if len(set(rewards)) > 1:
        return good(what, f"from {min(rewards):.3g} to {max(rewards):.3g}")
    if can_compare(probe.environment):
        return unknown(what, "what tells them from each other is what score_group() gives")
    if not rewards:
        return bad(
            what, "no episode got a reward; return one from step(), score() or score_group()"
        )
    told = f"the reward is constant: {rewards[0]:g} in all of {len(rewards)} episodes"
    if can_demonstrate(probe.environment) or rewards[0] > 0:
        return bad(what, f"{told}, whatever was said; nothing can be learned from it")
    return unknown(what, f"{told}. Was no answer right? With demonstrate(), this check could tell")


def _rewards(probe: Probe) -> list[float]:
    """Of junk that it takes, and of the environment's own answers."""
    played = list[Played]()
    for index, words in itertools.product(range(2), JUNK):
        with contextlib.suppress(Refusal):  # the next check tells of it
            played.append(probe.play_once(index, words))
    if can_demonstrate(probe.environment):
        played += [probe.play_once(index, None) for index in range(N_TASKS)]
    return [each.reward for each in played if each.reward is not None]


def _repeats(probe: Probe, what: str) -> Finding:
    if not probe.environment.replayable:
        return unknown(what, "it says replayable = False")
    for index in range(N_TASKS):
        shuffle_global_chance(1)
        first = _played(probe, index)
        shuffle_global_chance(2)
        again = probe.play(index, saying(first.actions))
        if first.digests != again.digests or first.reward != again.reward:
            turn = _first_difference(first, again)
            return bad(what, f"task {index} differs at {turn}; take all chance from ctx.rng")
    return good(what, f"{N_TASKS} tasks, played twice")


def _first_difference(first: Played, again: Played) -> str:
    pairs = zip(first.digests, again.digests, strict=False)
    turn = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if turn is None:
        return "its reward or its length"
    return "its reset" if turn == 0 else f"turn {turn}"


def _global_chance(probe: Probe, what: str) -> Finding:
    shuffle_global_chance(3)
    before = random.getstate()
    _played(probe, 0)
    if random.getstate() != before:
        return bad(what, "it draws from the global `random`; take ctx.rng instead")
    return good(what)


def _scores(probe: Probe, what: str) -> Finding:
    """Also that junk does not raise: a refusal is reported by the caller."""
    junk = [_junk(probe, index, words) for index in range(2) for words in JUNK]
    rewards = [played.reward for played in junk if played.reward is not None]
    if not can_demonstrate(probe.environment):
        return unknown(what, f"{len(junk)} junk answers did not raise; it has no demonstrate()")
    best = [probe.play_once(index, None).reward or 0.0 for index in range(N_TASKS)]
    mean = sum(best) / len(best)
    highest = max(rewards, default=float("-inf"))
    if rewards and set(rewards) == set(best):
        return unknown(what, "the reward is constant")
    if not rewards and can_compare(probe.environment):
        return unknown(what, "score_group() alone rewards them")
    if rewards and sum(rewards) / len(rewards) >= mean:
        return bad(what, f"junk scores {highest:g} at best, demonstrations {mean:.3g} on average")
    return good(what, f"demonstrations {mean:.3g} on average, junk {highest:g} at best")


def _junk(probe: Probe, index: int, words: str) -> Played:
    try:
        return probe.play_once(index, words)
    except Refusal as refusal:
        raise Refusal(
            refusal.kind, f"the answer {words[:20]!r} makes it fail: {refusal.reason}"
        ) from refusal


def _ids(probe: Probe, what: str) -> Finding:
    told = Counter(each for each in probe.task_ids() if each is not None)
    repeated = [each for each, n in told.items() if n > 1]
    if repeated:
        first = repeated[0]
        why = f"{told[first]} have {first!r}"
        return bad(what, f"{why}; id_of() must give each its own, or None to tell it by its number")
    return good(what, "" if told else "they are told by their numbers")


def _limits(probe: Probe, what: str) -> Finding:
    limits = probe.environment.limits
    allowed = {"reset()": limits.reset_s, "step()": limits.step_s, "score()": limits.score_s}
    taken = dict.fromkeys(allowed, 0.0)
    for index in range(N_TASKS):
        seen = _played(probe, index).longest_s
        taken = {where: max(taken[where], seen.get(where, 0.0)) for where in taken}
    slow = [where for where in taken if taken[where] > ROOM * allowed[where]]
    told = ", ".join(f"{where} {1000 * taken[where]:.3g} ms" for where in taken)
    if slow:
        return bad(what, f"{told}; less than half of the limit of {slow[0]} is left")
    return good(what, f"at most {told}")


def _memory(probe: Probe, what: str) -> Finding:
    for index in range(N_TASKS):
        _played(probe, index)
    before = _resident_mib()
    for index in range(N_FOR_MEMORY):
        _played(probe, index % N_TASKS)
    grown = _resident_mib() - before
    told = f"{grown:+.1f} MiB over {N_FOR_MEMORY} episodes"
    return bad(what, f"{told}; something is kept") if grown > MAX_GROWTH_MIB else good(what, told)


def _played(probe: Probe, index: int) -> Played:
    """An episode by the environment's own actions, or by some that may make sense."""
    if can_demonstrate(probe.environment):
        return probe.play(index, demonstrated)
    return probe.play(index, saying(["1", "a", "yes"]))


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1024**2


CHECKS: tuple[tuple[str, Check], ...] = (
    ("it can be played", _can_be_played),
    ("its episodes end", _ends),
    ("the same seed shows the same", _repeats),
    ("the global random state is left alone", _global_chance),
    ("answers are rewarded differently", _differs),
    ("demonstrations beat junk, and junk does no harm", _scores),
    ("groups can be compared", compares),
    ("what it shows holds no answer", leak),
    ("no two tasks have the same id", _ids),
    ("calls are well within their limits", _limits),
    ("memory stays flat", _memory),
)
N_NEEDED = 2
"""So many of the first must hold for the others to make sense."""
WIDTH = max(len(what) for what, _ in CHECKS)
