"""The clock that all gateways of a store share."""

import time

from sqlalchemy import text
from sqlmodel import Session


def store_time_s(session: Session) -> float:
    """Unix time."""
    if session.get_bind().dialect.name == "sqlite":
        return time.time()
    clock = text("SELECT extract(epoch FROM clock_timestamp())::float8")
    return float(session.connection().execute(clock).scalar_one())
