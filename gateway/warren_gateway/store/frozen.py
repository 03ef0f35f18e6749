"""Ends the transactions of gateways that froze in the middle of one: they keep rows locked.

PostgreSQL itself ends a transaction whose client is silent between two statements
(`idle_in_transaction_session_timeout`), but not one whose client stopped in the middle of a pipeline
or of a long message: that one counts as active, and keeps its locks for as long as the client is
frozen. So gateways look after each other.

Invariant: only a transaction whose client was silent for `silent_s` is ended, and only one of this
user, this database and this program. To its client it is a connection that was lost before the commit.
"""

import logging

from sqlalchemy import text
from sqlmodel import Session

_END_FROZEN = text(
    """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE usename = current_user AND datname = current_database()
      AND application_name = current_setting('application_name')
      AND xact_start IS NOT NULL AND wait_event_type = 'Client'
      AND state_change < clock_timestamp() - make_interval(secs => :silent_s)
    """
)

log = logging.getLogger(__name__)


def end_frozen(session: Session, *, silent_s: float) -> int:
    """How many transactions were ended; their locks are free soon after."""
    if session.get_bind().dialect.name == "sqlite":
        return 0
    ended = session.connection().execute(_END_FROZEN, {"silent_s": silent_s}).all()
    if ended:
        log.warning("ended %d transactions of gateways that seem to be frozen", len(ended))
    return len(ended)
