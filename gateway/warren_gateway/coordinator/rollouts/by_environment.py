"""Statistics by environment: of one step or evaluation, and of all steps so far.

env/METRIC                  mean over the step's episodes that report it (env/NAME/METRIC in a run of several)
env_episodes/METRIC         how many these are
reward/env/NAME             the same of the reward, in a run of several
env_total/NAME/episodes     episodes that were trained on so far
env_total/NAME/reward       mean over them; so `turns` and `truncated`
env_total/NAME/METRIC       mean over those of them that report it
env_total_episodes/NAME/METRIC   how many these are
"""

from collections import defaultdict
from collections.abc import Sequence

from warren_gateway.coordinator.state.groups import Group
from warren_schemas.config import EnvironmentConfig
from warren_schemas.episode import Completed, EpisodeEnded

Pairs = list[tuple[EpisodeEnded, Completed]]
Sums = dict[str, dict[str, float]]
"""By environment and by what is summed up, `EPISODES` among it."""

EPISODES = "episodes"
_METRIC, _COUNT = "metric:", "count:"


def environment_sums(groups: Sequence[Group]) -> Sums:
    """By environment, sums over the episodes of the groups."""
    return {name: _sums(pairs) for name, pairs in _by_environment(groups).items()}


def add(totals: Sums, more: Sums) -> None:
    """Add `more` to the totals, in place."""
    for name, sums in more.items():
        mine = totals.setdefault(name, {})
        for what, value in sums.items():
            mine[what] = mine.get(what, 0.0) + value


def environment_tags(
    environments: Sequence[EnvironmentConfig], by_environment: Sums
) -> dict[str, float]:
    """Means over the episodes of each environment."""
    is_one = len({environment.name for environment in environments}) == 1
    tags: dict[str, float] = {}
    for name, sums in by_environment.items():
        tags |= _tags(name, sums, is_one=is_one)
    return tags


def _by_environment(groups: Sequence[Group]) -> dict[str, Pairs]:
    pairs: dict[str, Pairs] = defaultdict(list)
    for group in groups:
        for item, outcome in group.completed:
            pairs[item.spec.environment].append((item, outcome))
    return pairs


def _sums(pairs: Pairs) -> dict[str, float]:
    """Of what the environment reports, and of what every episode has, which goes before it."""
    sums: dict[str, float] = defaultdict(float)
    for item, outcome in pairs:
        for name, value in outcome.metrics.items():
            sums[_METRIC + name] += value
            sums[_COUNT + name] += 1.0
        sums["reward"] += outcome.reward
        sums["turns"] += len(item.transcript.turns)
        sums["truncated"] += outcome.truncated
    return {**sums, EPISODES: float(len(pairs))}


def _tags(name: str, sums: dict[str, float], *, is_one: bool) -> dict[str, float]:
    own = "" if is_one else f"/{name}"
    tags = {f"env{own}/{metric}": mean for metric, mean in _reported(sums).items()}
    tags |= {f"env_episodes{own}/{metric}": n for metric, n in _counts(sums).items()}
    return tags if is_one else {**tags, f"reward/env/{name}": sums["reward"] / sums[EPISODES]}


def total_tags(name: str, totals: dict[str, float]) -> dict[str, float]:
    """Of one environment over the whole run; what every episode has goes before what it reports."""
    n = totals[EPISODES]
    own = {what: v / n for what, v in totals.items() if not what.startswith((_METRIC, _COUNT))}
    found = {**_reported(totals), **own, EPISODES: n}
    tags = {f"env_total/{name}/{what}": value for what, value in found.items()}
    return tags | {f"env_total_episodes/{name}/{what}": n for what, n in _counts(totals).items()}


def _reported(sums: dict[str, float]) -> dict[str, float]:
    """Means over the episodes that report the metric."""
    return {name: sums[_METRIC + name] / n for name, n in _counts(sums).items()}


def _counts(sums: dict[str, float]) -> dict[str, float]:
    return {k.removeprefix(_COUNT): n for k, n in sums.items() if k.startswith(_COUNT)}
