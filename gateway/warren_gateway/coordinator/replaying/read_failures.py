"""Why the recording of a replay can't be read further, and what to do about it."""

from warren_broker.port import FromTime
from warren_gateway.coordinator.replaying.files import Archived
from warren_gateway.coordinator.replaying.recording import Recording


def wrong(here: Recording) -> str | None:
    """Why no replay of it can go on, where something is wrong with what stands there."""
    if here.wrong is None:
        return None
    is_archive = isinstance(here.origin, Archived)
    other = (
        "without source.from_archive" if is_archive else "once that is put right and uploaded anew"
    )
    return f"{here.name}: {here.wrong}; replay it {other}"


def silent(here: Recording) -> str:
    """Why nothing of it comes, though its run has ended."""
    if here.trouble is not None:
        return f"{here.trouble}; replay it once it can be read, or without source.from_archive"
    if isinstance(here.read_from, FromTime):
        return f"{here.name} recorded nothing from that time on; leave it out, or replay from an earlier time"
    if isinstance(here.origin, Archived):
        return (
            f"the archive of {here.name} is not complete at this gateway; replay it without"
            " source.from_archive, or wait until the archive says `complete`"
        )
    return (
        f"the recording of {here.name} can't be read from offset"
        f" {here.next_offset or 0} on; it may be older than its retention"
    )
