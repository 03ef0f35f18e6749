"""Lists of tasks that a process keeps for the next episodes: bounded in bytes, the used ones stay."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import JsonValue
from tests.support.interacting import spec

from warren.environment import ConfigError, Context, Env, Limits, StepResult, TaskError
from warren_env_worker.host.call_status import SharedCallStatus
from warren_env_worker.host.child.size import size_bytes
from warren_env_worker.host.child.task_cache import TaskCache, task_of_row
from warren_env_worker.host.forked.task_loader import TaskLoader
from warren_env_worker.host.protocol import Call, Start, pack, unpack
from warren_env_worker.host.refusal import Refusal
from warren_env_worker.host.request import start_of
from warren_env_worker.permissions.granting import granted
from warren_schemas.episode import TaskRef, TaskRow
from warren_schemas.operator_policy import TRUSTING

MIB = 1024 * 1024
MAX_MIB = 4


class Bulky(Env[str]):
    """Lists of `size_mib`, of which three fit."""

    name = "bulky"
    limits = Limits(memory_mb=2 * MAX_MIB)

    def __init__(self, number: int, size_mib: float = 1.2) -> None:
        self.number = number
        self.size_mib = size_mib

    def tasks(self, split: str) -> list[str]:
        return [f"{number:01000}" for number in range(int(self.size_mib * 1000))]

    def reset(self, task: str, ctx: Context) -> str:
        return task

    def step(self, action: str) -> StepResult:
        return StepResult(reward=0.0, done=True)


def start(number: int, **config: float) -> Start:
    of = spec("bulky", environment_config={"number": number, **config})
    return start_of(of, granted(TRUSTING, of))


def test_lists_that_take_too_much_together_give_way_longest_unused_first() -> None:
    cache = TaskCache(Bulky)
    for number in range(3):
        cache.load(start(number))
    assert all(cache.has_loaded(start(number)) for number in range(3))
    cache.task(start(0))
    cache.loaded_at(start(1))
    cache.load(start(3))
    assert [cache.has_loaded(start(number)) for number in range(4)] == [True, True, False, True]


def test_one_list_is_kept_however_large() -> None:
    cache = TaskCache(Bulky)
    cache.load(start(0))
    cache.load(start(1, size_mib=10.0))
    assert not cache.has_loaded(start(0))
    assert cache.task(start(1, size_mib=10.0))


class Remote(Bulky):
    """Asks somebody for its tasks."""

    async def tasks(self, split: str) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        await asyncio.sleep(0)
        if self.number < 0:
            raise ConfigError(f"nobody has {split}")
        return [f"{split} {self.number}"]


async def test_tasks_that_must_be_waited_for_are_loaded_as_others_are() -> None:
    cache = TaskCache(Remote)
    loading = cache.load(start(7))
    assert loading is not None
    assert not cache.has_loaded(start(7))
    await loading
    assert cache.task(start(7)) == "train 7"
    with pytest.raises(Refusal, match="no tasks for 'train': nobody has train"):
        await (cache.load(start(-1)) or asyncio.sleep(0))


def test_only_a_shared_process_waits_for_tasks() -> None:
    status = SharedCallStatus()
    loader = TaskLoader(status, Remote)
    with pytest.raises(Refusal, match="is async, for which isolation must be"):
        loader.load(Call(1, 1, start(7)))
    status.close()


@dataclass
class Slotless:
    text: str


class Slotted:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def test_the_size_is_of_what_hangs_on_tasks_too() -> None:
    texts = [f"{number:0100000}" for number in range(1000)]
    least = sum(map(sys.getsizeof, texts))
    for tasks in (
        texts,
        [{"t": [t]} for t in texts],
        [Slotless(t) for t in texts],
        [Slotted(t) for t in texts],
    ):
        assert least <= size_bytes(tasks) < 1.02 * least


def test_what_tasks_share_counts_in_each_sample_and_lazy_lists_as_themselves() -> None:
    assert size_bytes(range(10**12)) == sys.getsizeof(range(10**12))
    assert size_bytes([]) == sys.getsizeof([])


class OfRows(Bulky):
    """Says what stands in the rows of a data set."""

    def task_of(self, row: Mapping[str, Any]) -> str:
        return row["text"] * self.number


def row_start(values: dict[str, JsonValue]) -> Start:
    task = TaskRef(index=0, row=TaskRow(number=7, values=values))
    of = spec("bulky", environment_config={"number": 2}).model_copy(update={"task": task})
    return start_of(of, granted(TRUSTING, of))


def test_a_row_of_a_data_set_is_the_task_and_nothing_is_loaded() -> None:
    cache, begun = TaskCache(OfRows), row_start({"text": "ha"})
    assert cache.has_loaded(begun)
    assert begun.row is not None
    assert task_of_row(begun.row, cache.make(begun)) == "haha"
    assert (cache.task_number(begun), cache.n_loads) == (7, 0)
    (travelled,) = unpack(pack([Call(1, 1, begun)]))
    assert travelled.start is not None
    assert travelled.start.row == begun.row


@pytest.mark.parametrize(
    ("environment", "values", "reason"),
    [
        (OfRows, {"question": "ha"}, "row 7: task_of.. refused it: KeyError: 'text'"),
        (Bulky, {"text": "ha"}, "row 7: Bulky takes no data set"),
    ],
)
def test_a_row_that_is_no_task_is_told_by_its_number(
    environment: type[Env[str]], values: dict[str, JsonValue], reason: str
) -> None:
    cache, begun = TaskCache(environment), row_start(values)
    assert begun.row is not None
    with pytest.raises(TaskError, match=reason):
        task_of_row(begun.row, cache.make(begun))


class Named(Env[dict[str, str]]):
    """Tasks that have ids, or none."""

    name = "named"

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def tasks(self, split: str) -> list[dict[str, str]] | None:
        return [{"id": name} if name else {} for name in self.names] or None

    def reset(self, task: dict[str, str], ctx: Context) -> str:
        return "?"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=0.0, done=True)


def named_start(
    names: list[JsonValue], ids: tuple[str, ...], index: int, *, shuffle: bool
) -> Start:
    task = TaskRef(index=index, task_ids=ids, shuffle=shuffle)
    of = spec("named", environment_config={"names": names}).model_copy(update={"task": task})
    (travelled,) = unpack(pack([Call(1, 1, start_of(of, granted(TRUSTING, of)))]))
    assert travelled.start is not None
    return travelled.start


def test_tasks_are_chosen_by_their_ids_in_the_order_that_is_given_or_shuffled() -> None:
    cache, names = TaskCache(Named), [*"abcdef", ""]
    ids = ("e", "b", "train/6")
    for index, number in enumerate([4, 1, 6, 4]):
        begun = named_start([*names], ids, index, shuffle=False)
        if not cache.has_loaded(begun):
            cache.load(begun)
        assert (cache.task_number(begun), cache.n_tasks(begun)) == (number, 3)
    assert cache.n_loads == 1
    shuffled = [named_start([*names], ids, index, shuffle=True) for index in range(3)]
    assert {cache.task_number(begun) for begun in shuffled} == {4, 1, 6}
    whole = named_start([*names], (), 0, shuffle=False)
    assert not cache.has_loaded(whole), "other tasks are another list"


@pytest.mark.parametrize(
    ("names", "ids", "reason"),
    [
        (["apple", "pear"], ("aple",), "task_ids: no task has the id 'aple'; did you mean apple?"),
        (["x", "y"], ("zebra",), "task_ids: no task has the id 'zebra'; the 2 begin with x, y"),
        (
            ["x", "y", "x"],
            ("y", "x"),
            "task_ids: 2 tasks have the id 'x', so it names none of them; give each its own",
        ),
        ([], ("a",), "task_ids: the environment makes its own tasks, and has none to choose"),
    ],
)
def test_ids_that_no_task_has_are_refused(
    names: list[JsonValue], ids: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        TaskCache(Named).load(named_start(names, ids, 0, shuffle=True))
    assert refusal.value.reason.endswith(reason)
    assert not refusal.value.is_retryable


def test_ids_are_told_to_whoever_lists_them() -> None:
    cache, begun = TaskCache(Named), named_start(["a", "", "a"], (), 0, shuffle=False)
    cache.load(begun)
    assert cache.ids(begun) is None
    assert cache.ids(replace(begun, lists_ids=True)) == ["a", None, "a"]
