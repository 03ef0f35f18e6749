"""Jobs that are admitted where no trainer is, so that coordinators take their runs up."""

from sqlalchemy import update
from sqlmodel import Session, col

from warren_gateway.store.tables import JobRow


def admit_all(session: Session) -> None:
    """As the scheduler does it for jobs that some trainer has room for."""
    session.exec(update(JobRow).where(col(JobRow.state) == "queued").values(state="admitted"))
