"""Policy versions of a run that stay however old they are, for they are served under names."""

from sqlalchemy import bindparam
from sqlmodel import Session, col, select

from warren_gateway.store.tables import ServedRow

KEPT_S = 900.0
"""So long after a name points elsewhere its policy is there; no request takes that long."""

KeptVersions = tuple[tuple[int, float | None], ...]
"""Each with the Unix time until which it stays; None for as long as its name points there."""

# Made once, as in `store.statements`: it is asked for whenever somebody looks at a run.
_KEPT = select(ServedRow.version, ServedRow.until_s).where(
    col(ServedRow.run_id) == bindparam("its_run"), col(ServedRow.url).is_not(None)
)


def kept_versions(session: Session, run: str) -> KeptVersions:
    return tuple(
        (version, None if until_s is None else until_s + KEPT_S)
        for version, until_s in session.exec(_KEPT, params={"its_run": run})
        if version is not None
    )


def in_use(kept: KeptVersions, now_s: float) -> set[int]:
    return {version for version, until_s in kept if until_s is None or until_s > now_s}
