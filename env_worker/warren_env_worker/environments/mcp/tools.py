"""The tools of an episode's servers, by the names that the policy is told.

With one server its own names; with several, each with its server's name before it, so that no tool's name depends on
what another server offers.
"""

from collections.abc import Mapping, Sequence

from warren.environment import ConfigError
from warren_env_worker.environments.mcp.servers import Reached
from warren_env_worker.environments.tool_calls import ToolSpec
from warren_schemas.text.explain import nearest

BETWEEN = "__"


class Tools:
    def __init__(self, servers: Sequence[Reached]) -> None:
        self._chosen = {server.name: server.server.tools for server in servers}
        self._of_server: dict[str, Sequence[ToolSpec]] = {}

    def replace(self, found: Mapping[str, Sequence[ToolSpec]]) -> bool:
        """Those of these servers by now; whether that is a change to the policy."""
        before = self.told
        self._of_server |= found
        return self.told != before

    def require_chosen(self, server: str) -> None:
        """That it has all tools that the config names. Raises `ConfigError`."""
        known = [tool.name for tool in self._of_server[server]]
        for name in self._chosen[server]:
            if name not in known:
                match = nearest(name, known)
                rest = f"did you mean {match}?" if match else f"it has {', '.join(known)}"
                raise ConfigError(f"servers.{server}.tools: it has no tool {name}; {rest}")

    @property
    def told(self) -> list[ToolSpec]:
        return [
            tool.model_copy(update={"name": name}) for name, (_, tool) in self._by_name().items()
        ]

    def where(self, name: str) -> tuple[str, str]:
        """The server, and what it calls the tool that the policy knows by this name."""
        server, tool = self._by_name()[name]
        return server, tool.name

    def _by_name(self) -> dict[str, tuple[str, ToolSpec]]:
        return {
            self._name(server, tool): (server, tool)
            for server, tools in self._of_server.items()
            for tool in tools
            if not self._chosen[server] or tool.name in self._chosen[server]
        }

    def _name(self, server: str, tool: ToolSpec) -> str:
        return tool.name if len(self._chosen) == 1 else f"{server}{BETWEEN}{tool.name}"
