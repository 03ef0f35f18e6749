"""Which run a person means by a name, by the end of an id, or by `last`.

Rule: of several that fit, the newest that still goes on, else the newest; which one it was is logged
where the name fits more than one. The end of an id, which is a way to be exact, must fit one alone. Where a
policy is meant, `last` passes over runs that train nothing: evaluations, for example.
"""

import logging
import re
from collections.abc import Sequence

from warren.errors import ConfigurationError, NotFound
from warren_schemas.http import RunView

MOST_LOOKED_AT = 500
"""Names are looked for among so many of the newest runs."""

LAST = "last"
HINT = "`warren runs ls` lists your runs."

_ID = re.compile(r"run_[0-9a-f]{28}")

log = logging.getLogger(__name__)


def is_run_id(name: str) -> bool:
    """Whether this is a whole id."""
    return _ID.fullmatch(name) is not None


def choose_run(runs: Sequence[RunView], name: str, *, trained: bool = False) -> RunView:
    """The run of these, newest first, that is meant. Raises `NotFound`, `ConfigurationError`."""
    if name == LAST:
        fitting = [run for run in runs if not trained or _is_training(run)]
    elif not (fitting := [run for run in runs if run.name == name]):
        fitting = _ending_with(runs, name)
    if not fitting:
        raise NotFound(f"There is no run {name!r}", hint=HINT)
    chosen = next((run for run in fitting if not run.state.is_final), fitting[0])
    if name != LAST and len(fitting) > 1:
        which = "newest" if chosen.state.is_final else "newest that still goes on"
        log.warning(
            "%r fits %d runs; took %s (%s), the %s",
            name, len(fitting), chosen.id, chosen.state, which,
        )  # fmt: skip
    return chosen


def _is_training(run: RunView) -> bool:
    return run.config is None or not run.config.is_evaluation


def require_one(runs: Sequence[RunView], name: str) -> None:
    """For what can't be taken back. Raises `ConfigurationError` where a name fits several runs."""
    fitting = [run.id for run in runs if run.name == name]
    if name != LAST and len(fitting) > 1:
        raise _ambiguous(name, fitting)


def _ending_with(runs: Sequence[RunView], ending: str) -> list[RunView]:
    fitting = [run for run in runs if ending and run.id.endswith(ending)]
    if len(fitting) > 1:
        raise _ambiguous(ending, [run.id for run in fitting])
    return fitting


def _ambiguous(name: str, ids: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{name!r} fits {len(ids)} runs",
        details=ids[:5],
        hint="Give the whole id, or the last digits of it.",
    )
