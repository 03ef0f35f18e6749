"""Commands at a terminal of their own, and how long they are silent.

Silence is the one thing here that is measured in seconds, as that is what the product promises. On a
machine that has more to do than it can (`is_overloaded`), it is reported and fails nothing.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.patience import PATIENCE_S, STOP_S

MAX_SILENCE_S = 10.0
LOAD_PER_CORE = 2.0
_SIZE = struct.pack("HHHH", 50, 160, 0, 0)
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")


def is_overloaded() -> bool:
    return os.getloadavg()[0] > LOAD_PER_CORE * (os.cpu_count() or 1)


class Terminal:
    """One command, from its start on; all it shows is kept."""

    def __init__(self, command: str, variables: Mapping[str, str], folder: Path) -> None:
        self.command = command
        self.begun_s = time.monotonic()
        self.longest_silence_s = 0.0
        self._shown = bytearray()
        self._changed = threading.Condition()
        self._has_ended = False
        self._keyboard, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, _SIZE)
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "setpriv", "--pdeathsig=KILL", "bash", "-c", f"{_FUNCTIONS}\n{command}"],
            env=variables, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal,
        )  # fmt: skip
        os.close(terminal)
        threading.Thread(target=self._read, name=f"read {command}", daemon=True).start()

    @property
    def shown(self) -> str:
        with self._changed:
            text = self._shown.decode(errors="replace")
        return _CONTROL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, pattern: str) -> "re.Match[str]":
        """Until it has shown this. Raises where it ends without, or takes too long."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._has_ended or re.search(pattern, self.shown), PATIENCE_S
            )
        match = re.search(pattern, self.shown)
        assert match, f"`{self.command}` never showed {pattern!r}:\n{self.shown[-3000:]}"
        return match

    def end(self) -> int:
        """Its exit code, once it has ended by itself. Raises where it shows nothing for too long."""
        n_shown = -1
        while self.is_running:
            with self._changed:
                has_stalled, n_shown = n_shown == len(self._shown), len(self._shown)
                has_changed = self._has_ended or self._changed.wait(PATIENCE_S)
            if has_stalled and not has_changed:
                self.kill()
                raise AssertionError(f"`{self.command}` does not end:\n{self.shown[-3000:]}")
            if self._has_ended:
                return self._process.wait(PATIENCE_S)
        return self._process.wait()

    def press_ctrl_c(self) -> int:
        os.write(self._keyboard, b"\x03")
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"`{self.command}` does not heed Ctrl-C:\n{self.shown}") from None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self) -> None:
        heard_s = self.begun_s
        while True:
            select.select([self._keyboard], [], [])  # without end: a server may have nothing to say
            now_s = time.monotonic()
            self.longest_silence_s = max(self.longest_silence_s, now_s - heard_s)
            heard_s = now_s
            try:
                got = os.read(self._keyboard, 65_536)
            except OSError:  # nobody has the terminal any more
                got = b""
            with self._changed:
                self._shown += got
                self._has_ended = not got
                self._changed.notify_all()
            if not got:
                os.close(self._keyboard)
                return


_FUNCTIONS = """
warren() {
  case "$1 $*" in
    *" --port"*) command warren "$@" ;;
    "up "*|"gateway "*) command warren "$@" --port "$TOUR_PORT" ;;
    "tensorboard "*) command warren "$@" --port "$TOUR_TENSORBOARD_PORT" ;;
    *) command warren "$@" ;;
  esac
}
tensorboard() { command tensorboard "$@" --port "$TOUR_TENSORBOARD_PORT"; }
make() { command make -o install -o .venv/installed "$@"; }
"""
"""What stands between a block's text and the programs: ports that are free, and nothing installed twice."""
