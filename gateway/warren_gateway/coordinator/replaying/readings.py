"""The readings of a replay: each recording in turn, and all of them again in every epoch.

Invariant: a reading begins where its recording is to be replayed from, with nothing taken yet but what the store
says was consumed in its epoch.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from warren_gateway.coordinator.replaying.recording import Recording
from warren_gateway.coordinator.state.group_parts import FIRST_READING, Reading
from warren_gateway.coordinator.state.source import ReadFrom
from warren_schemas.ids import GroupId

Consumed = Mapping[int, AbstractSet[GroupId]]
"""By epoch, the groups that need nothing more."""


class Readings:
    def __init__(
        self,
        recordings: Sequence[Recording],
        *,
        epochs: int = 1,
        begin: ReadFrom | None = None,
        consumed: Consumed | None = None,
    ) -> None:
        """`begin`: where to read on."""
        self.recordings = recordings
        self.now = FIRST_READING if begin is None else begin.reading
        self._epochs = epochs
        self._consumed = consumed or {}
        for recording in recordings:
            recording.begin(self._closed(self.now.epoch))
        self.recording.next_offset = None if begin is None else begin.offset

    @property
    def recording(self) -> Recording:
        """The one that is read now."""
        return self.recordings[self.now.recording]

    @property
    def is_last(self) -> bool:
        return self._after(self.now) is None

    @property
    def ends_epoch(self) -> bool:
        """Whether this is the last recording."""
        return self.now.recording + 1 == len(self.recordings)

    def end_with_this_epoch(self) -> None:
        self._epochs = self.now.epoch + 1

    def go_on(self) -> None:
        """To the next one, which there is."""
        after = self._after(self.now)
        assert after is not None
        self.now = after
        self.recording.begin(self._closed(after.epoch))

    def left(self) -> Iterator[tuple[Reading, Recording]]:
        """This one and those after it."""
        reading: Reading | None = self.now
        while reading is not None:
            yield reading, self.recordings[reading.recording]
            reading = self._after(reading)

    def _after(self, reading: Reading) -> Reading | None:
        if reading.recording + 1 < len(self.recordings):
            return Reading(reading.epoch, reading.recording + 1)
        return Reading(reading.epoch + 1) if reading.epoch + 1 < self._epochs else None

    def _closed(self, epoch: int) -> AbstractSet[GroupId]:
        return self._consumed.get(epoch, frozenset())
