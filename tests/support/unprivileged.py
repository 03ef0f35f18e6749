"""Run a coroutine as a user without any rights, in a fork of this process."""

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

NOBODY = 65534


def run_as_nobody(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """What `main` needs must be imported before. Raises `AssertionError` with its traceback."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        os._exit(_run(main, writer))
    os.close(writer)
    with os.fdopen(reader) as file:
        complaint = file.read()
    _, status = os.waitpid(process, 0)
    assert status == 0, complaint or f"ended with status {status}"


def _run(main: Callable[[], Coroutine[Any, Any, None]], writer: int) -> int:
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        asyncio.run(main())
    except BaseException:  # noqa: BLE001 - told to the one who asked
        os.write(writer, traceback.format_exc().encode()[-4000:])
        return 1
    return 0
