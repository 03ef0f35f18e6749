"""The parts of a reward that compare the episodes of a group, once all have ended.

What they give is added to what the other parts give; where there are no others, to what the environment gives.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.rewards.rubric import (
    MAX_CODE_CHARS,
    JudgePart,
    Part,
    Scale,
    ServicePart,
)
from warren_schemas.text.written import Config


class GroupFunctionReward(Part):
    """A Python function on the env worker that compares the episodes of a group, once all have ended."""

    kind: Literal["group_function"] = "group_function"
    function: Annotated[str, Field(pattern=r"^[\w.-]+(:[\w.]+)?$", max_length=256)]
    """As of the kind `function`. It gives a number for each episode, which is added to what the other parts give; where
    there are no others, to what the environment gives."""


class GroupServiceReward(ServicePart):
    """An HTTP endpoint of your own that compares the episodes of a group, once all have ended: one request for each group."""

    kind: Literal["group_service"] = "group_service"


class RankingScore(Config):
    """All episodes by their numbers, the best one first: it gets 1, the last one 0, and the others are evenly spaced in between."""

    kind: Literal["ranking"] = "ranking"
    after: Annotated[str, Field(max_length=256)] = "Ranking:"
    """The numbers behind these words, where they stand last; empty takes the last numbers of all."""


class ListScore(Scale):
    """A JSON list with a number for each episode, in their order: the last list in the judge's words."""

    kind: Literal["list"] = "list"


GroupJudgement = Annotated[RankingScore | ListScore, Field(discriminator="kind")]


class GroupJudgeReward(JudgePart):
    """A language model that compares the episodes of a group, once all have ended: one question for each group."""

    kind: Literal["group_judge"] = "group_judge"
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_CODE_CHARS)]
    """What it is asked. `{responses}` stands for the last words of each episode and `{transcripts}` for all its messages,
    each under its number (`[1]`, `[2]`, …), `{task}` for the first message of the user and `{n}` for the number of
    episodes; all other braces are as they are."""
    score: GroupJudgement = RankingScore()
    """How its answer becomes a number from 0 to 1 for each episode."""

    @model_validator(mode="after")
    def _sees_what_was_said(self) -> Self:
        if "{responses}" not in self.prompt and "{transcripts}" not in self.prompt:
            raise ValueError(
                "prompt has neither {responses} nor {transcripts}, so the judge would not see what was said"
            )
        return self


GroupReward = Annotated[
    GroupFunctionReward | GroupServiceReward | GroupJudgeReward, Field(discriminator="kind")
]
"""Of all episodes of a group."""
