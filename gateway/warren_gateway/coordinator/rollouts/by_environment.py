"""Statistics by environment: of one step or evaluation, and of all steps so far.

env/METRIC                  mean over the step's episodes (env/NAME/METRIC in a run of several)
reward/env/NAME             the same of the reward, in a run of several
env_total/NAME/episodes     episodes that were trained on so far
env_total/NAME/reward       mean over them; so `turns`, `truncated`, and every METRIC
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
            sums[f"metric:{name}"] += value
        sums["reward"] += outcome.reward
        sums["turns"] += len(item.transcript.turns)
        sums["truncated"] += outcome.truncated
    return {**sums, EPISODES: float(len(pairs))}


def _tags(name: str, sums: dict[str, float], *, is_one: bool) -> dict[str, float]:
    prefix = "env" if is_one else f"env/{name}"
    n = sums[EPISODES]
    metrics = {k.removeprefix("metric:"): v / n for k, v in sums.items() if k.startswith("metric:")}
    tags = {f"{prefix}/{metric}": value for metric, value in metrics.items()}
    return tags if is_one else {**tags, f"reward/env/{name}": sums["reward"] / n}


def means(totals: dict[str, float]) -> dict[str, float]:
    """Of one environment: means over its episodes, and how many these are."""
    n = totals[EPISODES]
    found = {what: value / n for what, value in totals.items() if what != EPISODES}
    reported = {k.removeprefix("metric:"): v for k, v in found.items() if k.startswith("metric:")}
    own = {k: v for k, v in found.items() if not k.startswith("metric:")}
    return {**reported, **own, EPISODES: n}
