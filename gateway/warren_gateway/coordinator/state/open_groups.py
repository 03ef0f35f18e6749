"""The groups in flight, with what would otherwise be counted anew at every decision.

Invariants: `in_flight` counts the members in flight by environment; `next_deadline_s` is the earliest
deadline of a group that is not complete. So whoever ends a member or moves a deadline does it here, and
neither figure costs more where more episodes are live.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, MutableMapping, ValuesView
from heapq import heappop, heappush

from warren_gateway.coordinator.state.groups import Group
from warren_gateway.position import Position
from warren_schemas.episode import EpisodeEnded, Failed
from warren_schemas.ids import GroupId


class OpenGroups(MutableMapping[GroupId, Group]):
    def __init__(self, groups: Iterable[Group] = ()) -> None:
        self.in_flight = Counter[int]()
        """Members in flight, by environment."""
        self._groups: dict[GroupId, Group] = {}
        self._deadlines: list[tuple[float, GroupId]] = []
        """A heap; what a group's deadline no longer is lies in it until it comes up."""
        for group in groups:
            self[group.id] = group

    def __getitem__(self, key: GroupId) -> Group:
        return self._groups[key]

    def __setitem__(self, key: GroupId, group: Group) -> None:
        self._groups[key] = group
        self.in_flight[group.environment] += group.n_missing
        self.set_deadline(group, group.deadline_s)

    def __delitem__(self, key: GroupId) -> None:
        group = self._groups.pop(key)
        self.in_flight[group.environment] -= group.n_missing

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def values(self) -> ValuesView[Group]:
        return self._groups.values()

    def note_ending(
        self, group: Group, item: EpisodeEnded, position: Position, *, max_attempts: int
    ) -> bool:
        """Note an expected ending; True when the member must be started again instead."""
        is_again = group.take(item, position, max_attempts=max_attempts)
        self.in_flight[group.environment] -= not is_again
        return is_again

    def note_failure(
        self, group: Group, member: int, failure: Failed, *, max_attempts: int
    ) -> bool:
        """Note the failure of a member in flight; True when it must be started again."""
        is_again = group.fail(member, failure, max_attempts=max_attempts)
        self.in_flight[group.environment] -= not is_again
        return is_again

    def set_deadline(self, group: Group, deadline_s: float) -> None:
        group.deadline_s = deadline_s
        heappush(self._deadlines, (deadline_s, group.id))

    def next_deadline_s(self) -> float | None:
        """Of the groups that are not complete; None where there is none."""
        while self._deadlines:
            deadline_s, key = self._deadlines[0]
            group = self._groups.get(key)
            if group and group.deadline_s == deadline_s and not group.is_complete:
                return deadline_s
            heappop(self._deadlines)
        return None
