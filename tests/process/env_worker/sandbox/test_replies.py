"""A session whose supervisor is not ours: what it sends is bounded, and never taken for a result."""

import struct
import sys

import pytest

from warren.host_services import SandboxFailed
from warren_env_worker.sandbox.plan import Plan
from warren_env_worker.sandbox.process import MAX_REPLY_BYTES, ProcessSandbox

READY = b"{}"
THEIRS = """
import socket, sys
host = socket.socket(fileno=int(sys.argv[1]))
for said in sys.argv[2:]:
    host.sendall(bytes.fromhex(said))
    host.recv(1 << 16)
"""


def saying(*said: bytes) -> ProcessSandbox:
    """One that begins so, and says the rest one by one when it is asked."""
    told = [each.hex() for each in said]
    return ProcessSandbox(
        "their",
        lambda: Plan(
            "their", lambda socket: [sys.executable, "-c", THEIRS, str(socket), *told], ()
        ),
    )


def framed(frame: bytes) -> bytes:
    return struct.pack("<I", len(frame)) + frame


TOO_LONG = struct.pack("<I", MAX_REPLY_BYTES + 1)


async def test_one_that_begins_with_too_much_does_not_start() -> None:
    with pytest.raises(SandboxFailed, match=f"sends {MAX_REPLY_BYTES + 1} bytes at once"):
        await saying(TOO_LONG).start()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (TOO_LONG, f"sends {MAX_REPLY_BYTES + 1} bytes at once"),
        (framed(b"\xff"), "no reply of a supervisor"),
        (framed(b'{"status": "ok"}'), "no reply of a supervisor"),
        (framed(b'{"status": "won", "output": "", "n_omitted": 0}'), "no reply of a supervisor"),
        (framed(b'{"status": "ok", "output": 7, "n_omitted": 0}'), "no reply of a supervisor"),
    ],
)
async def test_what_is_no_reply_fails_the_cell_and_ends_the_session(
    reply: bytes, told: str
) -> None:
    sandbox = saying(framed(READY), reply)
    with pytest.raises(SandboxFailed, match=told):
        await sandbox.run("6 * 7", 60.0)
    assert not sandbox.is_alive
