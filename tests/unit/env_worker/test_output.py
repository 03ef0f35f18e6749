"""What environments print: whole lines, tagged, in a file of bounded size; nobody is held up by it."""

import fcntl
import os
from pathlib import Path

from warren_env_worker.output import log as log_module
from warren_env_worker.output.lines import MAX_LINE_BYTES, Lines
from warren_env_worker.output.log import OutputLog, log_path, stamped
from warren_env_worker.output.pump import pumped
from warren_env_worker.output.stack import places


def test_lines_are_tagged_once_they_are_whole() -> None:
    lines = Lines("a")
    assert lines.add(b"one\ntw") == b"[a] one\n"
    assert lines.add(b"o\n") == b"[a] two\n"
    assert lines.end() == b""
    lines.add(b"rest")
    assert lines.end() == b"[a] rest\n"
    assert lines.add(b"x" * (MAX_LINE_BYTES + 1)) == b"[a] " + b"x" * MAX_LINE_BYTES + b"\n"


def test_the_log_never_grows_over_its_bound(tmp_path: Path) -> None:
    log = OutputLog(log_path(tmp_path, "my_package.my_env:MyEnv"))
    chunk = stamped(b"x" * (log_module.MAX_BYTES // 3), "w")
    for _ in range(8):
        log.append(chunk)
    assert log.path == tmp_path / "environments" / "my_package.my_env.MyEnv.log"
    assert 0 < log.path.stat().st_size <= log_module.MAX_BYTES
    assert 0 < log.old_path.stat().st_size <= log_module.MAX_BYTES


def test_while_another_process_renews_the_log_nothing_is_written_over_the_bound(
    tmp_path: Path,
) -> None:
    log = OutputLog(tmp_path / "a.log")
    log.append(b"x" * log_module.MAX_BYTES)
    with (tmp_path / "a.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        log.append(b"more\n")
    assert log.path.stat().st_size == log_module.MAX_BYTES
    log.append(b"more\n")
    assert log.path.read_bytes() == b"more\n"


def test_a_folder_that_cannot_be_written_costs_the_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "environments").write_text("a file")
    OutputLog(log_path(tmp_path, "a:B")).append(b"lost\n")


def test_all_that_was_printed_before_the_end_is_kept() -> None:
    kept = bytearray()
    with pumped("a", kept.extend) as (sink, pump):
        os.write(sink, b"first ")
        os.write(sink, b"last")
    pump.drain()
    assert kept == b"first last"


def test_of_several_stacks_the_last_one_counts() -> None:
    dump = (
        'Stack (most recent call first):\n  File "a.py", line 1 in f\n'
        'noise\nCurrent thread 0x1 (most recent call first):\n  File "b.py", line 2 in g\n'
    )
    assert [(p.path, p.line, p.function) for p in places(dump)] == [("b.py", 2, "g")]
