"""What a node's log says when it stops dead-lettering."""

from pathlib import Path

from tests.chaos.dead_letters import NodeLog, has_stopped

BOOTS = "[info] <0.223.0> Running boot step rabbit_fifo_dlx_sup defined by app rabbit\n"
GOES_ON = (
    "[error] <0.509.0>     supervisor: {local,rabbit_fifo_dlx_sup}\n"
    "[error] <0.509.0>     errorContext: child_terminated\n"
    "[error] <0.509.0>     reason: {{shutdown,delete},\n"
)
STOPS = (
    "[error] <0.509.0>     supervisor: {local,rabbit_fifo_dlx_sup}\n"
    "[error] <0.509.0>     errorContext: shutdown\n"
    "[error] <0.509.0>     reason: reached_max_restart_intensity\n"
)
OF_ANOTHER = STOPS.replace("{local,rabbit_fifo_dlx_sup}", "{<0.941.0>,rabbit_channel_sup}")


def test_a_node_stops_when_its_supervisor_gives_up() -> None:
    assert has_stopped(BOOTS + GOES_ON + STOPS)


def test_one_worker_that_ends_or_another_supervisor_stops_nothing() -> None:
    assert not has_stopped(BOOTS + GOES_ON + OF_ANOTHER)


def test_a_boot_begins_anew() -> None:
    assert not has_stopped(BOOTS + STOPS + BOOTS)
    assert has_stopped(BOOTS + STOPS + BOOTS + GOES_ON + STOPS)


def test_each_look_reads_what_is_new_and_tells_of_a_stop_once(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    node_log = NodeLog(path)
    assert not node_log.tells_of_stop()
    half = len(STOPS) // 2
    path.write_text(BOOTS + STOPS[:half])
    assert not node_log.tells_of_stop()
    with path.open("a") as file:
        file.write(STOPS[half:])
    assert node_log.tells_of_stop()
    assert not node_log.tells_of_stop()
    with path.open("a") as file:
        file.write(BOOTS + STOPS)
    assert node_log.tells_of_stop()
