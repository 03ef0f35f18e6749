"""The agents' own side, in a process of its own: `python -m benchmarks.agents.clients SOCKET`.

Each connection to the socket is one agent: a line says what it speaks and where the model is, the agent has its
conversation, and a line back says that it is over. What agents and their HTTP clients cost is therefore this
process's, and not that of the process that answers them.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
from pydantic import BaseModel
from tests.support.conversations import SURFACES, SYSTEM, Script, Shown, Surface, user

from warren import Agent
from warren.environment import Context

N_TURNS = 8
LONGEST_LINE_BYTES = 2**20


class Errand(BaseModel, frozen=True, extra="forbid"):
    """What one agent is to do."""

    dialect: str
    n_chars: int
    """Of the first prompt, which are as many tokens."""
    base_url: str
    root_url: str
    api_key: str


async def sent(socket: str, errand: Errand) -> None:
    """Return when the agent has had its conversation; raise if it could not."""
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(errand.model_dump_json().encode() + b"\n")
    said = await reader.readline()
    writer.close()
    if said != b"over\n":
        raise RuntimeError("an agent ended before its conversation was over")


async def _main(socket: str) -> None:
    server = await asyncio.start_unix_server(_serve, socket, limit=LONGEST_LINE_BYTES, backlog=1024)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    errand = Errand.model_validate_json(await reader.readline())
    async with _agent(errand) as surface:
        shown = Shown(0, (SYSTEM, user("?" * errand.n_chars)))
        for turn in range(1, N_TURNS + 1):
            await surface.show(shown)
            shown = Shown(turn, (user("?"),))
    writer.write(b"over\n")
    writer.close()


@asynccontextmanager
async def _agent(errand: Errand) -> AsyncGenerator[Surface]:
    context = Context.derive(0, "train", 0, 0)
    agent = Agent(errand.base_url, errand.root_url, errand.api_key, context)
    async with aiohttp.ClientSession() as session:
        yield SURFACES[errand.dialect](agent, session, Script(()))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
