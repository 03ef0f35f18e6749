"""What clients send, in the words of both dialects: keys that neither has are refused."""

from typing import Any, Self

from pydantic import Field, model_validator

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import Name


class Task(Frozen):
    """A task as it is listed, and as it may be sent back to open a session."""

    id: str
    environment: str
    split: Name
    index: int = Field(ge=0)

    @classmethod
    def of(cls, environment: str, split: str, index: int, told: str | None) -> Self:
        """`told`: what the environment calls it, and no other task of the split."""
        name = f"{split}-{index}" if told is None else told
        return cls(id=name, environment=environment, split=split, index=index)


class OfSplit(Frozen):
    split: str


class OfTask(Frozen):
    split: str
    index: int


class OfRange(Frozen):
    """By Python's rules for slices."""

    split: str
    start: int | None = None
    stop: int | None = None


class Nothing(Frozen):
    pass


class NewSession(Frozen):
    env: dict[str, str] | None = None
    """Variables for a machine of one's own; there is none here, and they have no effect."""


class Create(Frozen):
    """Either a task as it was listed, or a split and an index."""

    env_name: str | None = None
    task_spec: Task | None = None
    split: str | None = None
    index: int | None = None
    toolset_name: None = None
    """There are no toolsets."""
    secrets: dict[str, str] | None = None
    """Environments here get their secrets from this server's operator; these have no effect."""

    @model_validator(mode="after")
    def _names_one_task(self) -> Self:
        by_place = (self.split is not None, self.index is not None)
        if any(by_place) != all(by_place) or (self.task_spec is not None) == all(by_place):
            raise ValueError("give either task_spec, or split and index")
        return self

    @property
    def place(self) -> tuple[str, int]:
        if self.task_spec is not None:
            return self.task_spec.split, self.task_spec.index
        assert self.split is not None and self.index is not None  # `_names_one_task`
        return self.split, self.index

    @property
    def environment(self) -> str | None:
        return self.task_spec.environment if self.task_spec is not None else self.env_name


class CallTool(Frozen):
    name: str
    input: dict[str, Any]
    task_id: str | None = None
    """The number of a call that was begun before: it is not made again."""
