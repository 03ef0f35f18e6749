"""CPU of an agent's turn on an env worker's host: `python -m benchmarks.agents`.

Agents that are live at once ask and are answered in rounds, with no model behind: what is left is the endpoint, the
translation, the environment's turn, and the agent's own HTTP client (aiohttp), which shares the process. The same
game by a native environment is one comparison; the other is the same calls to a server that answers without a thought,
whose client and server share a process, too.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import numpy as np
import orjson
from aiohttp import web
from tests.support.conversations import EOS, SURFACES, SYSTEM, Script, Shown, user

from warren import Agent, AgentEnv, Env, StepResult
from warren.environment import Context
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed
from warren_env_worker.host.request import Request
from warren_env_worker.host.startup import CHILD_MODULE
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodeSpec, PolicyRef, TaskRef
from warren_schemas.ids import GroupId, ModelId
from warren_schemas.transcript import ChatMessage, Tokens, Transcript, Turn

N_AGENTS, N_TURNS = 500, 8
N_SAMPLED = 16
SAID = "!" * N_SAMPLED
"""What the policy says at each turn, a token for each character."""
PROMPTS = (1, 2000)
"""Of so many characters, which are as many tokens."""


class Asking(AgentEnv):
    """An agent that says one thing again and again, behind a first prompt."""

    def __init__(self, dialect: str, n_chars: int) -> None:
        self.dialect, self.prompt = dialect, "?" * n_chars

    async def run(self, task: None, agent: Agent) -> float:
        async with aiohttp.ClientSession() as session:
            surface = SURFACES[self.dialect](agent, session, Script(()))
            shown = Shown(0, (SYSTEM, user(self.prompt)))
            for turn in range(1, N_TURNS + 1):
                await surface.show(shown)
                shown = Shown(turn, (user("?"),))
        return 1.0


class Native(Env):
    """The same without an agent."""

    isolation = "shared"

    def __init__(self, n_chars: int) -> None:
        self.prompt = "?" * n_chars

    def reset(self, task: None, ctx: Context) -> str:
        self.n_left = N_TURNS
        return self.prompt

    def step(self, action: str) -> StepResult:
        self.n_left -= 1
        return StepResult("?") if self.n_left else StepResult(reward=1.0, done=True)


async def main() -> None:
    for n_chars in PROMPTS:
        print(f"\n{N_AGENTS} live, {N_TURNS} turns each behind a prompt of {n_chars:,} tokens")
        told("native environment", *await measured("Native", {"n_chars": n_chars}))
        told("bare HTTP", *await bare(n_chars))
        for dialect in SURFACES:
            config: dict[str, object] = {"dialect": dialect, "n_chars": n_chars}
            told(dialect, *await measured("Asking", config))


def told(what: str, wall_s: float, cpu_s: float) -> None:
    n_turns = N_AGENTS * N_TURNS
    cpu_ms = cpu_s / n_turns * 1000
    print(f"{what:20} {cpu_ms:6.2f} ms of CPU for a turn, {n_turns / wall_s:7,.0f} turns/s")


async def measured(name: str, config: dict[str, object]) -> tuple[float, float]:
    """The wall time of all turns, and the CPU time of the process that played them."""
    host = Host(f"benchmarks.agents:{name}")
    running = asyncio.create_task(host.run(), name="host")
    await host.start()
    child = _child()
    spec = SPEC.model_copy(update={"environment_config": config})
    began_s, before_s = time.perf_counter(), _cpu_s(child)
    await asyncio.gather(*(Player(host, spec).play() for _ in range(N_AGENTS)))
    wall_s, cpu_s = time.perf_counter() - began_s, _cpu_s(child) - before_s
    running.cancel()
    await asyncio.wait({running})
    return wall_s, cpu_s


@dataclass
class Player:
    """Says the same at each turn, and keeps the record of it."""

    host: Host
    spec: EpisodeSpec
    slot: int = field(init=False)

    def __post_init__(self) -> None:
        self.slot = self.host.open()

    async def play(self) -> None:
        shown = await self._ask(None)
        transcript = _shown(Transcript(reset_digest=shown.digest), shown)
        while not shown.is_over:
            said = transcript.model_copy(
                update={
                    "messages": (*transcript.messages, ACTION),
                    "tokens": _sampled(transcript.tokens),
                }
            )
            shown = await self._ask(said)
            turns = (*said.turns, Turn(reward=shown.reward, digest=shown.digest))
            transcript = _shown(said.model_copy(update={"turns": turns}), shown)
        self.host.close(self.slot)

    async def _ask(self, transcript: Transcript | None) -> Observed:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.host.submit_request(Request(self.slot, self.spec, transcript, answered.set_result))
        answer = await answered
        assert isinstance(answer, Observed), answer
        return answer


ACTION = ChatMessage(role="assistant", content=SAID)


def _shown(transcript: Transcript, shown: Observed) -> Transcript:
    new = tuple(ChatMessage(role=message[0], content=message[1]) for message in shown.messages)
    if shown.ids:
        new = (ChatMessage(role="user", content="", n_tokens=len(shown.ids)),)
    ids = shown.ids or [EOS] * sum(len(message.content) for message in new)
    messages, tokens = (*transcript.messages, *new), transcript.tokens.prompted(ids)
    return transcript.model_copy(update={"messages": messages, "tokens": tokens})


def _sampled(before: Tokens) -> Tokens:
    more = before.prompted([EOS + 1] * N_SAMPLED)
    mask_T = np.append(before.mask_T, np.ones(N_SAMPLED, np.uint8))
    return more.model_copy(update={"mask_T": mask_T})


async def bare(n_chars: int) -> tuple[float, float]:
    """The wall and CPU time of the same calls, by chat completions, to a server that only reads and answers."""
    async with _thoughtless() as url:
        began_s, before_s = time.perf_counter(), time.process_time()
        agents = (_asked_in_vain(url, n_chars) for _ in range(N_AGENTS))
        await asyncio.gather(*agents)
        return time.perf_counter() - began_s, time.process_time() - before_s


@asynccontextmanager
async def _thoughtless() -> AsyncGenerator[str]:
    told = orjson.dumps({"choices": [{"message": {"role": "assistant", "content": SAID}}]})

    async def answer(request: web.Request) -> web.Response:
        orjson.loads(await request.read())
        return web.Response(body=told, content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _asked_in_vain(url: str, n_chars: int) -> None:
    agent = Agent(f"{url}/v1", url, "key", Context.derive(0, "train", 0, 0))
    asking = Asking("chat", n_chars)
    await asking.run(None, agent)


def _child() -> int:
    """The host's process."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline") as line, open(f"/proc/{entry}/stat") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
                    if CHILD_MODULE in line.read() and parent == os.getpid():
                        return int(entry)
            except FileNotFoundError:  # it has just ended
                continue
    raise RuntimeError("the host has no process")


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SPEC = EpisodeSpec(
    group=GroupId("group_1"),
    member=0,
    environment="asking",
    task=TaskRef(index=0),
    seed=1,
    policy=PolicyRef(model=ModelId("model_1"), base_model="none", min_version=0),
    sampling=Sampling(),
    max_turns=N_TURNS + 1,
)

if __name__ == "__main__":
    asyncio.run(main())
