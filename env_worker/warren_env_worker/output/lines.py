"""From what is printed, byte by byte, to whole lines that say where they come from.

A tag stands before each line, as in `[train 17, member 2] the board is full`. Lines without an end
are cut at `MAX_LINE_BYTES`.
"""

MAX_LINE_BYTES = 8192


class WholeLines:
    def __init__(self, *, drops_rest: bool = False) -> None:
        """What follows where a line was cut is a line, too, or is dropped up to the end of that line."""
        self._begun = bytearray()
        self._drops_rest = drops_rest
        self._is_cut = False

    @property
    def has_begun(self) -> bool:
        """Whether there is the beginning of a line."""
        return bool(self._begun)

    def add(self, printed: bytes) -> list[bytearray]:
        """The lines that are whole by now."""
        self._begun += printed
        *whole, rest = self._begun.split(b"\n")
        if self._is_cut and whole:
            del whole[0]
            self._is_cut = False
        elif self._is_cut:
            rest = bytearray()
        while len(rest) > MAX_LINE_BYTES:
            whole.append(rest[:MAX_LINE_BYTES])
            self._is_cut = self._drops_rest
            rest = bytearray() if self._is_cut else rest[MAX_LINE_BYTES:]
        self._begun = bytearray(rest)
        return whole


class Lines:
    """The lines of one source."""

    def __init__(self, tag: str) -> None:
        self._tag = f"[{tag}] ".encode()
        self._lines = WholeLines()

    def add(self, printed: bytes) -> bytes:
        """The lines that are whole by now, each with its tag."""
        return b"".join(self._tag + line + b"\n" for line in self._lines.add(printed))

    def end(self) -> bytes:
        """What is left, as a line."""
        return self.add(b"\n") if self._lines.has_begun else b""
