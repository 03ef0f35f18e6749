"""What a trace that Warren wrote says beside OpenEnv's keys: under `metadata.warren` of each turn."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

OWN = "warren"

ELSEWHERE = frozenset({
    "reward", "ids_T", "mask_T", "logprobs_T", "branch_n_tokens", "versions_T", "sampling_mask_sizes_T",
    "sampling_mask_ids", "prompt", "response", "conversation",
})  # fmt: skip
"""Columns of an export that the turns have, or that follow from other columns."""


class OwnTurn(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    branch: Annotated[int, Field(ge=0)]
    versions: list[int]
    """Policy version that sampled each token of the completion."""
    mask_sizes: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list[int])
    """Of the sampling mask, for each of these tokens; empty where nothing was cut."""
    mask_ids: list[int] = Field(default_factory=list[int])
    episode: dict[str, object] | None = None
    """On the first turn: all columns of its export but those `ELSEWHERE`."""
    tails: list[list[int]] | None = None
    """On the first turn: for each branch, its tokens behind the last that was sampled."""
