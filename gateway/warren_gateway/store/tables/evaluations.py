"""Evaluations of runs; what their episodes came to stands with their groups.

Invariants
- A row is written in the transaction that begins the evaluation, and says how it ended in the one that counts
  its last episode; both are changes of the run's coordinator.
- Nothing that follows from the groups is stored again: results are computed from them.
"""

from typing import Any, ClassVar

from sqlmodel import Field, SQLModel


class EvaluationRow(SQLModel, table=True):
    __tablename__: ClassVar[Any] = "evaluation"

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    number: int = Field(primary_key=True)
    """1, 2, 3 and so on in the run."""
    occasion: str
    """`before`, `during` or `after` training."""
    step: int
    version: int
    n_planned: int
    samples: int
    state: str
    started_s: float
    ended_s: float | None = None
