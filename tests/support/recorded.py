"""What a run's coordinator would have stored of the endings that it read."""

from collections.abc import Sequence

from sqlalchemy import update
from sqlmodel import Session, col
from tests.support.gateway import Gateway

from warren_gateway.position import Position
from warren_gateway.store.tables import GroupRow, Run


async def has_read(gateway: Gateway, run: str, offset: int, state: str = "running") -> None:
    """The run has read its stream up to there, and decided what that holds."""
    change = update(Run).where(col(Run.id) == run).values(stream_offset=offset, state=state)

    def apply(session: Session) -> None:
        session.exec(change)

    await gateway.store.transact(apply)


async def decided(
    gateway: Gateway,
    run: str,
    group: str,
    counted: Sequence[Position],
    *,
    fate: str = "trained",
    step: int = 1,
    attempts: Sequence[int] = (),
) -> None:
    """A group was consumed; `counted` says where the ending of each member stands that counts."""
    outcomes = [
        {"fate": fate, "step": step, "reward": float(member), "position": int(position)}
        for member, position in enumerate(counted)
    ]
    row = GroupRow(
        id=group,
        run_id=run,
        number=0,
        purpose="train",
        environment=0,
        task_index=0,
        n_members=len(outcomes),
        min_version=0,
        deadline_s=0.0,
        is_open=False,
        attempts=list(attempts) or [1] * len(outcomes),
        outcomes=outcomes,
    )
    await gateway.store.transact(lambda session: session.add(row))
