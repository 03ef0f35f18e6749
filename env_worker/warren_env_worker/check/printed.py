"""What an environment under check prints: to its log, tagged by episode, and kept to be shown."""

from warren_env_worker.output.lines import MAX_LINE_BYTES
from warren_env_worker.output.log import OutputLog, stamped
from warren_env_worker.permissions.secrets import Cleaner

MAX_SHOWN_BYTES = 256 * 1024


class Printed:
    """`keep` is called by one thread at a time; the rest, once nothing more comes."""

    def __init__(self, log: OutputLog, mark: str) -> None:
        self.log = log
        self.mark = mark
        self.n_lines = 0
        self._shown = bytearray()
        self._mark = f"\0{mark} ".encode()
        self._tag = b"import"
        self._begun = b""
        self._cleaner = Cleaner()

    def keep(self, printed: bytes) -> None:
        self._add(self._cleaner.clean(printed))

    def _add(self, printed: bytes) -> None:
        *whole, self._begun = (self._begun + printed).split(b"\n")
        if len(self._begun) > MAX_LINE_BYTES and self._mark not in self._begun:
            whole.append(self._begun)
            self._begun = b""
        self._write(b"".join(map(self._tagged, whole)))

    def end(self) -> None:
        """What is left is a line, too."""
        self._add(self._cleaner.rest())
        if self._begun:
            self._add(b"\n")

    @property
    def shown(self) -> str:
        """What a terminal may see."""
        text = self._shown.decode(errors="replace")
        return "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text).rstrip("\n")

    def _tagged(self, line: bytes) -> bytes:
        text, is_next, tag = line.partition(self._mark)
        told = b"[%s] %s\n" % (self._tag, text) if text or not is_next else b""
        if is_next:
            self._tag = tag
        return told

    def _write(self, lines: bytes) -> None:
        if not lines:
            return
        self.n_lines += lines.count(b"\n")
        if len(self._shown) < MAX_SHOWN_BYTES:
            self._shown += lines[: MAX_SHOWN_BYTES - len(self._shown)]
            if len(self._shown) == MAX_SHOWN_BYTES:
                self._shown += f"\n... the rest stands in {self.log.path}".encode()
        self.log.append(stamped(lines, "check"))
