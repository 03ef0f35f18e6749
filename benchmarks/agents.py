"""CPU of an agent's turn on an env worker's host: `python -m benchmarks.agents`.

Agents that are live at once ask and are answered in rounds, with no model behind: what is left is the endpoint, the
translation, the environment's turn, and the agent's own HTTP client (aiohttp), which shares the process. The same
game by a native environment is the comparison.
"""

import asyncio
import os
import time

import aiohttp

from warren import Agent, AgentEnv, Env, StepResult
from warren.environment import Context
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed
from warren_env_worker.host.request import Request
from warren_env_worker.host.startup import CHILD_MODULE
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodeSpec, PolicyRef, TaskRef
from warren_schemas.ids import GroupId, ModelId
from warren_schemas.transcript import ChatMessage, Transcript, Turn

N_AGENTS, N_TURNS = 500, 8


class Asking(AgentEnv):
    """An agent that says one thing again and again."""

    async def run(self, task: None, agent: Agent) -> float:
        headers = {"Authorization": f"Bearer {agent.api_key}"}
        messages: list[dict[str, str]] = []
        async with aiohttp.ClientSession(headers=headers) as session:
            for _ in range(N_TURNS):
                messages.append({"role": "user", "content": "?"})
                body = {"model": "policy", "messages": messages}
                url = f"{agent.base_url}/chat/completions"
                async with session.post(url, json=body) as response:
                    messages.append((await response.json())["choices"][0]["message"])
        return 1.0


class Native(Env):
    """The same without an agent."""

    isolation = "shared"

    def reset(self, task: None, ctx: Context) -> str:
        self.n_left = N_TURNS
        return "?"

    def step(self, action: str) -> StepResult:
        self.n_left -= 1
        return StepResult("?") if self.n_left else StepResult(reward=1.0, done=True)


async def main() -> None:
    for name in ("Native", "Asking"):
        n_turns, wall_s, cpu_s = await measured(f"benchmarks.agents:{name}")
        print(
            f"{name:8} {N_AGENTS} live: {cpu_s / n_turns * 1000:.2f} ms of CPU for a turn,"
            f" {n_turns / wall_s:,.0f} turns/s"
        )


async def measured(reference: str) -> tuple[int, float, float]:
    """Turns, their wall time, and the CPU time of the process that played them."""
    host = Host(reference)
    running = asyncio.create_task(host.run(), name="host")
    await host.start()
    child = _child()
    began_s, before_s = time.perf_counter(), _cpu_s(child)
    await asyncio.gather(*(_play(host, host.open()) for _ in range(N_AGENTS)))
    wall_s, cpu_s = time.perf_counter() - began_s, _cpu_s(child) - before_s
    running.cancel()
    await asyncio.wait({running})
    return N_AGENTS * N_TURNS, wall_s, cpu_s


async def _play(host: Host, slot: int) -> None:
    shown = await _ask(host, slot, None)
    transcript = Transcript(messages=_messages(shown), reset_digest=shown.digest)
    while not shown.is_over:
        said = (*transcript.messages, ChatMessage(role="assistant", content="!"))
        shown = await _ask(host, slot, transcript.model_copy(update={"messages": said}))
        turns = (*transcript.turns, Turn(reward=shown.reward, digest=shown.digest))
        messages = (*said, *_messages(shown))
        transcript = transcript.model_copy(update={"messages": messages, "turns": turns})


async def _ask(host: Host, slot: int, transcript: Transcript | None) -> Observed:
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    host.submit_request(Request(slot, SPEC, transcript, answered.set_result))
    answer = await answered
    assert isinstance(answer, Observed), answer
    return answer


def _messages(shown: Observed) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(role=message[0], content=message[1]) for message in shown.messages)


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
