"""Server-sent events (WHATWG HTML §9.2): bytes in, events out. No network here.

Invariant: an event comes out only when its closing blank line was read, so half an event that was
cut off with its connection is never seen; the server sends it again after `Last-Event-ID`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR that came last may still get its LF


@dataclass(frozen=True, slots=True)
class ServerEvent:
    id: str
    """The last id that was sent, by this event or one before it."""
    name: str
    data: str


@dataclass(slots=True)
class SseParser:
    """Feed it bytes as they come; they may be cut anywhere."""

    _rest: bytes = b""
    _id: str = ""
    _name: str = ""
    _data: list[str] = field(default_factory=list[str])

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that this chunk completes."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        for line in lines:
            event = self._read(line.decode("utf-8", errors="replace"))
            if event is not None:
                yield event

    def _read(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id":
            self._id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        event = ServerEvent(self._id, self._name or "message", "\n".join(self._data))
        has_data = bool(self._data)
        self._name, self._data = "", []
        return event if has_data else None
