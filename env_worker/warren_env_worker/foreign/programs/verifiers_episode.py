"""An episode of a taskset of verifiers (its v1 API), in the Python where it is installed.

verifiers calls the model where it is told to: at our endpoint, with the episode's key. Its own harnesses are programs
that install packages before each episode; the one here is a chat loop within this process.
"""

import asyncio
import importlib
import itertools
import json
import os
import sys
import types
from contextlib import AsyncExitStack
from typing import Any

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
listed: Any = importlib.import_module("verifiers_ids").listed
vf: Any = importlib.import_module("verifiers.v1")
loaders: Any = importlib.import_module("verifiers.v1.utils.loaders")
mcp: Any = importlib.import_module("verifiers.v1.harnesses.utils.mcp")
openai: Any = importlib.import_module("openai")

KEY_VARIABLE = "WARREN_EPISODE_KEY"
HARNESS = "warren_chat"
ENDLESS = {"n_tasks": None, "ids": None}


class Chat(vf.Harness[vf.HarnessConfig]):
    """Answers until the policy calls no tool any more."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> Any:
        messages = said_before(*self.resolve_prompt(data))
        servers = {"mcpServers": {name: {"url": url} for name, url in mcp_urls.items()}}
        async with AsyncExitStack() as stack:
            tools, routes, connections = await mcp.connect_mcp(servers, stack)
            offered = {"tools": tools} if tools else {}
            client = openai.AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None)
            await stack.enter_async_context(client)
            while True:
                asked = {"model": ctx.model, "messages": messages, **offered}
                answer = (await client.chat.completions.create(**asked)).choices[0].message
                messages.append(answer.model_dump(exclude_none=True))
                for call in answer.tool_calls or ():
                    told = await result_of(call.function, routes, connections)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
                if not answer.tool_calls:
                    return vf.ProgramResult(0, "", "")


def said_before(system: str | None, prompt: Any) -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": system}] if system else []
    if isinstance(prompt, str):
        return [*messages, {"role": "user", "content": prompt}]
    return messages + [message.model_dump(exclude_none=True) for message in prompt or ()]


async def result_of(function: Any, routes: Any, connections: Any) -> Any:
    try:
        arguments = json.loads(function.arguments or "{}")
    except ValueError as error:
        return f"error: the arguments are no JSON: {error}"
    if function.name not in routes or not isinstance(arguments, dict):
        return f"error: no tool {function.name} with such arguments"
    return await mcp.call_mcp(connections, routes, function.name, arguments)


class Episode:
    def make(self, taskset: str, arguments: dict[str, Any]) -> None:
        module: Any = types.ModuleType(HARNESS)
        module.Chat, module.__all__ = Chat, ["Chat"]
        sys.modules[HARNESS] = module
        agent = {"harness": {"id": HARNESS}, "runtime": {"type": "subprocess"}}
        served = {"interception": {"type": "server"}}
        config = {"taskset": {**arguments, "id": taskset}, "agent": agent, **served}
        self._env: Any = loaders.load_environment(loaders.resolve_env_config(config))
        if not isinstance(self._env, vf.SingleAgentEnv):
            kind = type(self._env).__name__
            raise TypeError(f"{kind} is no SingleAgentEnv: one agent plays each episode, once")
        self._tasks: Any = self._env.taskset

    def begin(self) -> dict[str, Any]:
        return {}

    def step(self, asked: dict[str, Any] | None) -> dict[str, Any]:
        """The whole episode; None: how many tasks it has, or None where they have no end, and their ids.

        To list the tasks is to load all of them: no episode needs that.
        """
        if asked is None:
            return listed(task.data.id for task in self._tasks) if self._tasks.bounded else ENDLESS
        os.environ[KEY_VARIABLE] = asked["api_key"]
        return asyncio.run(self._played(asked["index"], asked["base_url"], asked["model"]))

    async def _played(self, index: int, base_url: str, model: str) -> dict[str, Any]:
        (task,) = itertools.islice(self._tasks, index, index + 1)
        client = vf.EvalClientConfig(base_url=base_url, api_key_var=KEY_VARIABLE)
        async with self._env.serving():
            episode = await self._env.run_episode(task, vf.ModelContext(model, client))
        return outcome(episode)


def outcome(episode: Any) -> dict[str, Any]:
    errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    if errors or not episode.ok:
        told = errors[0] if errors else None
        raise RuntimeError(f"{told.type}: {told.message}" if told else "the episode is not ok")
    (trace,) = episode.traces
    rewards = {name: part for name, part in trace.rewards.items() if part is not None}
    parts = {name: float(part.value) for name, part in rewards.items()}
    metrics = {name: float(value) for name, value in trace.metrics.items() if value is not None}
    return {"reward": float(trace.reward) if parts else None, "metrics": metrics | parts}
