"""OpenEnv's TrainingTrace (schema version 1): the calls of the policy in one episode, each with its tokens.

Invariant: what is taken here is what the package `openenv` takes. It is not imported: it lies in an environment of its own.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class TrainingTurn(_Strict):
    """One call: all that the policy was shown, and what it sampled."""

    node_id: Annotated[str, Field(min_length=1)]
    prompt_token_ids: Annotated[list[TokenId], Field(min_length=1)]
    completion_token_ids: list[TokenId]
    per_token_logps: list[Annotated[float, Field(le=0)]]
    """Of the completion."""
    loss_mask: list[Literal[0, 1]]
    """1 where a token is learned: of the prompt and the completion, and never in the prompt."""
    request: dict[str, object] = Field(default_factory=dict)
    response: dict[str, object] = Field(default_factory=dict)
    metadata: dict[str, object] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        n_prompt, n_completion = len(self.prompt_token_ids), len(self.completion_token_ids)
        if len(self.per_token_logps) != n_completion:
            raise ValueError(
                f"per_token_logps has {len(self.per_token_logps)}, and the completion {n_completion} tokens"
            )
        if len(self.loss_mask) != n_prompt + n_completion:
            raise ValueError(
                f"loss_mask has {len(self.loss_mask)}, and prompt and completion {n_prompt + n_completion} tokens"
            )
        if any(self.loss_mask[:n_prompt]):
            raise ValueError("loss_mask is 1 in the prompt, of which nothing was sampled")
        return self

    @property
    def completion_mask(self) -> list[Literal[0, 1]]:
        return self.loss_mask[len(self.prompt_token_ids) :]


class TrainingTrace(_Strict):
    schema_version: Literal[1] = 1
    turns: list[TrainingTurn]

    @model_validator(mode="after")
    def _unique(self) -> Self:
        if len({turn.node_id for turn in self.turns}) < len(self.turns):
            raise ValueError("two turns have the same node_id")
        return self


class NotATrace(ValueError):
    """A TrainingTrace is none, or is not what can be trained on; says which key and why."""
