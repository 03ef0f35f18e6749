"""A host under test: episodes by name of the environment class, one call at a time or many."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S
from tests.support.processes import children_running, forks_running

from warren_broker.worker.child import Child
from warren_env_worker.host.host import NOTHING_LISTED, Host
from warren_env_worker.host.protocol import Answer, Message, Observed, Refused
from warren_env_worker.host.request import Request
from warren_env_worker.host.startup import CHILD_MODULE, SpawnChild
from warren_env_worker.output.log import MakeHearing, nobody
from warren_schemas.episode import EpisodeSpec
from warren_schemas.operator_policy import TRUSTING, OperatorPolicy
from warren_schemas.transcript import ChatMessage, Transcript, Turn


class Player:
    """One episode on a host, and the transcript that it would have."""

    def __init__(self, host: Host, of: EpisodeSpec) -> None:
        self.host = host
        self.spec = of
        self.slot = host.open()
        self.transcript = Transcript()

    async def reset(self) -> Answer:
        answer = await self._ask(None)
        if isinstance(answer, Observed):
            messages = tuple(map(_shown, answer.messages))
            self.transcript = Transcript(messages=messages, reset_digest=answer.digest)
        return answer

    async def step(self, action: str) -> Answer:
        said = ChatMessage(role="assistant", content=action)
        before = self.transcript
        asked = before.model_copy(update={"messages": (*before.messages, said)})
        answer = await self._ask(asked)
        if isinstance(answer, Observed):
            shown = tuple(map(_shown, answer.messages))
            turn = Turn(reward=answer.reward, digest=answer.digest)
            self.transcript = asked.model_copy(
                update={"messages": (*asked.messages, *shown), "turns": (*asked.turns, turn)}
            )
        return answer

    def moved_to(self, host: Host) -> "Player":
        """The same episode on another host, which has never seen it."""
        other = Player(host, self.spec)
        other.transcript = self.transcript
        return other

    async def _ask(self, transcript: Transcript | None) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.host.submit_request(Request(self.slot, self.spec, transcript, answered.set_result))
        async with asyncio.timeout(PATIENCE_S):
            return await answered


def _shown(message: Message) -> ChatMessage:
    return ChatMessage(role=message[0], content=message[1], is_quoted=message[0] == "assistant")


def child_pids() -> list[int]:
    """The processes of all hosts of this test process."""
    return [*children_running(CHILD_MODULE), *forks_running(CHILD_MODULE)]


@asynccontextmanager
async def hosting(
    class_name: str,
    *,
    policy: OperatorPolicy = TRUSTING,
    n_processes: int = 1,
    log_dir: Path | None = None,
    make_hearing: MakeHearing = nobody,
    spawn_child: SpawnChild = Child.spawn,
) -> AsyncGenerator[Host]:
    """A running host of a class of `tests.support.environments`, or of `module:Class`."""
    reference = class_name if ":" in class_name else f"tests.support.environments:{class_name}"
    host = Host(
        reference,
        policy=policy,
        n_processes=n_processes,
        log_dir=log_dir,
        make_hearing=make_hearing,
        spawn_child=spawn_child,
    )
    running = asyncio.create_task(host.run(), name="host")
    try:
        yield host
    finally:
        running.cancel()
        await asyncio.wait({running})


@asynccontextmanager
async def hosted(reference: str, *, spawn_child: SpawnChild = Child.spawn) -> AsyncGenerator[Host]:
    """A host that has been started, of what is allowed nothing."""
    async with hosting(reference, policy=NOTHING_LISTED, spawn_child=spawn_child) as host:
        await host.start()
        yield host


async def playing(host: Host, environment: str = "letters", **config: object) -> Player:
    """A player whose episode was reset."""
    player = Player(host, spec(environment, environment_config=config))
    assert isinstance(await player.reset(), Observed)
    return player


async def observed(answer: Awaitable[Answer]) -> Observed:
    result = await answer
    assert isinstance(result, Observed), result
    return result


async def refused(answer: Awaitable[Answer]) -> Refused:
    result = await answer
    assert isinstance(result, Refused), result
    return result
