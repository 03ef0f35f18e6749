"""Plays one episode of an agent with real packages, and prints what came of it: `python play_one.py MODULE:CLASS`.

The policy says what is right, but for the agent for tools, which gets a script.
"""

import importlib
import json
import sys
from collections.abc import Sequence

from warren.environment import ChatMessage
from warren.testing import play

SUM = '<tool_call>\n{"name": "add", "arguments": {"a": 19, "b": 23}}\n</tool_call>'
DONE = '<tool_call>\n{"name": "final_answer", "arguments": {"answer": "42"}}\n</tool_call>'


def right(messages: Sequence[ChatMessage]) -> str:
    return "eo"[int(messages[-1].content[0]) % 2]


def main() -> None:
    module, _, name = sys.argv[1].partition(":")
    script = iter([SUM, DONE])

    def scripted(messages: Sequence[ChatMessage]) -> str:
        return next(script)

    policy = scripted if name == "ToolCalls" else right
    episode = play(getattr(importlib.import_module(module), name)(), policy, seed=4)
    told = {
        "reward": episode.reward,
        "roles": [message.role for message in episode.messages],
        "after": [result.after for result in episode.results],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
