"""Where rubrics are applied: an environment of Warren's own, in one process of each env worker.

Its only action is an episode that has ended, or a group of them, as JSON; its only answer what the parts of its config give. So a
function that hangs or crashes costs the rubrics under way another try in a fresh process, and no environment; and
services are asked for the episodes of all environments together.
"""

import orjson

from warren.environment import Context, Env, Limits, StepResult
from warren_env_worker.host.refusal import Refusal
from warren_env_worker.rewards.composition import Composition, GroupComposition
from warren_env_worker.rewards.scored import RewardFailed, Scored, ScoredGroup
from warren_schemas.config import GroupReward, Reward

LIMIT_S = 300.0
"""What all parts of a reward may take together."""


class Rubric(Env):
    name = "warren/rubric"
    isolation = "shared"
    limits = Limits(step_s=LIMIT_S)

    def __init__(
        self, parts: tuple[Reward, ...] = (), group_parts: tuple[GroupReward, ...] = ()
    ) -> None:
        self.composition = Composition(parts)
        self.groups = GroupComposition(group_parts) if group_parts else None

    async def reset(self, task: None, ctx: Context) -> str:
        return "?"

    async def step(self, action: str) -> StepResult:
        try:
            if self.groups is not None:
                given = await self.groups.score(ScoredGroup.from_json(action))
                return StepResult(orjson.dumps(given).decode(), done=True)
            reward, metrics = await self.composition.score(Scored.from_json(action))
        except RewardFailed as error:
            raise Refusal(error.kind, str(error), is_retryable=error.is_retryable) from error
        return StepResult(reward=reward, done=True, metrics=metrics)
