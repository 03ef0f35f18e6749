"""Programs in boxes: what they may do, what they try, and playing them in this process."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.support.agents import Curl

from warren import Agent, Box, CommandAgent
from warren.agents.endpoint import stop_endpoint
from warren.agents.environment import AgentFailed
from warren.environment import Context, StepResult

ASKS = Curl.command[2].partition("echo 0.5")[0].replace("curl -sf", "curl -sfo /tmp/said")
"""The beginning of every program: it asks the policy something."""
SMALL = Box(memory_mib=96, processes=12)

SPIES = """
import json, os, socket
task = json.loads(os.environ["TRIED"])
def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
print(
    refused(open, task["file"]),
    refused(socket.create_connection, ("127.0.0.1", task["port"]), 5),
    refused(open, "new", "w"),
    refused(open, "/usr/new", "w"),
    refused(open, "/dev/new", "w"),
    refused(os.listdir, "/proc/1/fd"),
    refused(socket.socket, socket.AF_VSOCK),
    task["variable"] not in os.environ,
    max(int(name) for name in os.listdir("/proc") if name.isdigit()) < 100,
    os.path.exists("agent.txt"),
)
"""
HELD = " ".join(["True"] * 10)
HOARDS = "x = bytearray(40 << 20); import time; time.sleep(600)"


class Boxed(CommandAgent):
    """Asks the policy something, and goes on with this script."""

    name = "boxed"
    box = SMALL

    def __init__(self, script: str, tried: dict[str, str | int] | None = None) -> None:
        self.script = script
        self.tried = tried or {}

    command = ("bash", "-c", f'{ASKS}\neval "$SCRIPT"')

    def variables(self, task: None, agent: Agent) -> dict[str, str]:
        mine = {"SCRIPT": self.script, "SPIES": SPIES, "HOARDS": HOARDS}
        return {**super().variables(task, agent), **mine, "TRIED": json.dumps(self.tried)}


class Online(Boxed):
    """On the network of the machine."""

    name = "online"
    box = SMALL.model_copy(update={"network": "host"})


class Unboxed(Boxed):
    """With the rights of its worker, where nobody says otherwise."""

    name = "unboxed"
    box = None


class Hungry(Boxed):
    """Asks for more memory than most operators allow."""

    name = "hungry"
    box = Box(memory_mib=4096)


class Lasting(Boxed):
    """Leaves a process in a session of its own before it asks."""

    name = "lasting"
    command = ("bash", "-c", f"setsid sleep 3600 &\n{ASKS}\necho 0.5 > $WARREN_REWARD")

    def __init__(self) -> None:
        super().__init__("")


class Keyholder(Boxed):
    """Its folder is the whole machine."""

    name = "keyholder"
    folder = "/"


async def played(agent: CommandAgent, max_box: Box | None = None) -> StepResult:
    """To its end, where the policy says yes to all that it asks. Raises what it raises."""
    agent.context = Context(seed=0, max_box=max_box)
    try:
        await agent.reset(None, agent.context)
        return await agent.step("yes")
    finally:
        await agent.close()
        await stop_endpoint()


async def failed(agent: CommandAgent) -> str:
    """Why it did."""
    try:
        result = await played(agent)
    except AgentFailed as failure:
        return str(failure)
    raise AssertionError(f"it should have failed: {result}, {agent.output}")


@asynccontextmanager
async def listening() -> AsyncGenerator[int]:
    """A port of this machine's loopback interface where requests are answered with 204."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 204 Nothing\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
