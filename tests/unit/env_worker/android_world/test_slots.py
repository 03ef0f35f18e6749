"""Who has which server, and which ones are left alone."""

from pathlib import Path

from warren_env_worker.environments.android_world.slots import (
    FIRST_QUARANTINE_S,
    LONGEST_QUARANTINE_S,
    GivenTask,
    Slot,
    goal_digest,
    taken,
)

URL = "http://phones:5000/"


def got(folder: Path, url: str = URL) -> Slot:
    slot = taken(url, folder)
    assert slot is not None
    return slot


def test_a_server_has_one_user_at_a_time(tmp_path: Path) -> None:
    slot, other = got(tmp_path / "slots"), got(tmp_path / "slots", "http://phones:5001/")
    assert taken(URL, tmp_path / "slots") is None
    slot.release()
    got(tmp_path / "slots").release()
    other.release()


def test_a_server_that_failed_is_left_alone_for_longer_each_time_until_it_plays(
    tmp_path: Path,
) -> None:
    pauses = list[float]()
    for _ in range(8):
        slot = got(tmp_path)
        slot.quarantine("it hangs")
        pauses.append(slot.quarantine_s)
        slot.release()
    assert 0 < pauses[0] <= FIRST_QUARANTINE_S < pauses[1] < pauses[2]
    assert LONGEST_QUARANTINE_S / 2 < pauses[-1] <= LONGEST_QUARANTINE_S
    slot = got(tmp_path)
    assert slot.reason == "it hangs"
    slot.trust()
    slot.release()
    assert got(tmp_path).quarantine_s < 0


def test_the_task_that_a_device_has_is_remembered_until_it_is_torn_down(tmp_path: Path) -> None:
    task = GivenTask(
        family="android_world", n_combinations=3, seed=1, task_type="Wifi", task_idx=0,
        goal=goal_digest("Turn wifi off."),
    )  # fmt: skip
    slot = got(tmp_path)
    slot.note(task)
    slot.quarantine("it hangs " * 99)
    slot.release()
    slot = got(tmp_path)
    assert (slot.task, slot.quarantine_s > 0) == (task, True)
    slot.trust()
    slot.release()
    slot = got(tmp_path)
    assert (slot.task, slot.quarantine_s < 0, slot.reason) == (task, True, "")
    slot.forget()
    slot.release()
    assert got(tmp_path).task is None


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    got(tmp_path).release()
    (file,) = tmp_path.iterdir()
    file.write_text('{"until_s": "soon')
    slot = got(tmp_path)
    assert slot.quarantine_s < 0
    slot.quarantine("it hangs")
    slot.release()
    assert got(tmp_path).quarantine_s > 0
