"""Whether a class that compares the episodes of a group can do that: a group of several, and one of a single episode."""

import contextlib
from collections.abc import Sequence

from warren_env_worker.check.finding import Finding, good, unknown
from warren_env_worker.check.probe import Played, Probe, can_compare, can_demonstrate
from warren_env_worker.host.refusal import Refusal

WORDS = ("", "junk", "several words, and more of them")


def compares(probe: Probe, what: str) -> Finding:
    """A refusal is reported by the caller."""
    if not can_compare(probe.environment):
        return good(what, "it has no score_group(): each is rewarded by itself")
    played = _group(probe)
    if not played:
        return unknown(what, "no episode could be played")
    group = [each.transcript for each in played]
    probe.compare(0, group[:1])
    given = probe.compare(0, group)
    rewards = [alone.reward or 0.0 for alone in played]
    totals = [alone + beside for alone, beside in zip(rewards, given, strict=True)]
    if len(set(totals)) == 1:
        return unknown(what, f"all of {len(group)} episodes got {totals[0]:g}")
    return good(what, f"from {min(totals):.3g} to {max(totals):.3g} in a group of {len(group)}")


def _group(probe: Probe) -> Sequence[Played]:
    """Of one task: by junk that it takes, and by its own answers."""
    words: Sequence[str | None] = (*WORDS, None) if can_demonstrate(probe.environment) else WORDS
    played = list[Played]()
    for said in words:
        with contextlib.suppress(Refusal):  # another check tells of it
            played.append(probe.play_once(0, said))
    return played
