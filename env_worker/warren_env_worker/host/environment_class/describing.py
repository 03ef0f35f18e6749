"""What whoever plays an environment tells of its class before anything is played."""

from typing import Any

from warren.environment import Env
from warren_env_worker.host.environment_class.boxes import box_of
from warren_env_worker.host.environment_class.code import code_digest
from warren_env_worker.host.late import raisable_s
from warren_env_worker.host.protocol import Description
from warren_env_worker.output.stack import own_root


def describe(environment: type[Env[Any]]) -> Description:
    limits = environment.limits
    each_s = (limits.load_s, limits.reset_s, limits.step_s, limits.score_s)
    return Description(
        name=environment.name or environment.__name__.lower(),
        version=environment.version,
        code=code_digest(environment),
        is_replayable=environment.replayable,
        sees_tokens=environment.sees_tokens,
        max_episodes=limits.max_episodes,
        shortest_s=min(each_s),
        longest_s=max(each_s),
        raisable_s=raisable_s(environment),
        root=own_root(environment),
        splits=environment.splits,
        is_single_turn=environment.single_turn,
        tools=environment.offered(),
        box=box_of(environment),
        compares_groups=environment.score_group is not Env.score_group,
        has_levels=environment.has_levels,
    )
