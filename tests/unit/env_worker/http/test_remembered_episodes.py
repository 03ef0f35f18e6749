"""Episodes behind `warren env serve` that are over: the newest are remembered, so that a request may come again."""

from warren_env_worker.host.protocol import Observed
from warren_env_worker.http_server.bodies import Begin
from warren_env_worker.http_server.episodes import Episodes
from warren_env_worker.served_episode import Episode


class Hosted(Episode):
    """Without a host; over as soon as it has begun, unless it `lasts`."""

    def __init__(self, *, lasts: bool) -> None:
        self.lasts = lasts

    @property
    def is_live(self) -> bool:
        return self.lasts

    async def begin(self) -> Observed:
        return Observed(1, [("user", "?")])

    def close(self) -> None:
        self.lasts = False


class Served:
    """A server's episodes; `opened` names the task of each that was begun anew."""

    def __init__(self) -> None:
        self.opened: list[int] = []
        self.episodes = Episodes(self._open, capacity=8, idle_s=60.0, max_finished=2)

    async def begin(self, task: int) -> None:
        await self.episodes.begin(f"episode-{task}", Begin(seed=1, task=task))

    def _open(self, begin: Begin) -> Episode:
        self.opened.append(begin.task)
        return Hosted(lasts=begin.task == 0)


async def test_the_last_that_are_over_are_remembered() -> None:
    served = Served()
    for task in (1, 2, 3, 1, 4):  # the first is asked for again, so the second is the oldest
        await served.begin(task)
    assert served.opened == [1, 2, 3, 4]
    await served.begin(1)
    assert served.opened == [1, 2, 3, 4]
    await served.begin(2)
    assert served.opened == [1, 2, 3, 4, 2]


async def test_live_ones_are_not_forgotten_for_those_that_are_over() -> None:
    served = Served()
    for task in (0, 1, 2, 3, 4, 0):
        await served.begin(task)
    assert served.opened == [0, 1, 2, 3, 4]
