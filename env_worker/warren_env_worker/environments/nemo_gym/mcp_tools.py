"""Tools that a resource server offers by MCP, for rows that name none: asked for over the session's own connection.

NeMo Gym's MCP servers keep nothing of their own: each message stands for itself, and a header that `seed_session` gave says of which
session it is. So a message is one more call of the session, and is made again where that is lost, the list of tools included.

Invariant: a message is the same each time it is sent; the header stays with the connection.
"""

from typing import TypeVar

from pydantic import TypeAdapter

from warren.environment import ChatMessage
from warren_env_worker.environments.mcp.answers import Result, within
from warren_env_worker.environments.nemo_gym.answers import CALLED, LISTED, Refused
from warren_env_worker.environments.nemo_gym.connection import GymFailed
from warren_env_worker.environments.nemo_gym.session import GymSession
from warren_env_worker.environments.tool_calls import ReadCall, ToolSpec

MAX_PAGES = 100

ResultT = TypeVar("ResultT")


class McpTools:
    def __init__(self, session: GymSession, path: str, max_chars: int) -> None:
        self._session = session
        self._path = path
        self._max_chars = max_chars
        self._n_asked = 0

    async def specs(self) -> list[ToolSpec]:
        """Of all tools. Raises `GymFailed`, `NotReplayable`."""
        found: list[ToolSpec] = []
        params: dict[str, object] = {}
        for _ in range(MAX_PAGES):
            page = await self._asked("tools/list", params, LISTED)
            if isinstance(page, Refused):
                raise GymFailed(f"{self._session.url} does not tell its tools by MCP")
            found += [tool.spec for tool in page.result.tools]
            if page.result.next_cursor is None:
                return found
            params = {"cursor": page.result.next_cursor}
        raise GymFailed(f"{self._session.url}: its list of tools has more than {MAX_PAGES} pages")

    async def call(self, call: ReadCall) -> tuple[ChatMessage, bool]:
        """What it gave, and whether that is an error. Raises `GymFailed`, `NotReplayable`."""
        params: dict[str, object] = {"name": call.name, "arguments": call.arguments}
        answer = await self._asked("tools/call", params, CALLED)
        if isinstance(answer, Refused):
            told = within(f"Error: {answer.error.message}", self._max_chars)
            return ChatMessage(role="tool", content=told), True
        given = answer.result
        result = Result(content=given.content, structured=given.structured, is_error=given.is_error)
        return result.message(self._max_chars), result.is_error

    async def _asked(
        self, method: str, params: dict[str, object], answers: TypeAdapter[ResultT]
    ) -> ResultT:
        self._n_asked += 1
        message = {"jsonrpc": "2.0", "id": self._n_asked, "method": method, "params": params}
        answer = await self._session.call(self._path, message)
        return self._session.read(answers, self._path, answer)
