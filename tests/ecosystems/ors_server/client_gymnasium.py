"""Plays FrozenLake to its goal by the client of ors-sdk, in the environment of `ors.txt`: `client_gymnasium.py URL`; prints JSON."""

import json
import sys
from importlib import import_module
from typing import Any

ors: Any = import_module("ors.client")  # untyped here: it is not in our environment
ACTIONS = ("down", "down", "right", "right", "down", "right")


def main(url: str) -> dict[str, Any]:
    with ors.ORS(base_url=url, api_key="key") as client:
        lake = client.environment("gymnasium")
        seen: dict[str, Any] = {"splits": lake.list_splits(), "n": lake.num_tasks("train")}
        seen["tools"] = [tool.name for tool in lake.list_tools()]
        with lake.session(split="train", index=1) as session:
            seen["shown"] = [session.get_prompt()[-1].text]
            said = [session.call_tool("act", {"action": action}) for action in ACTIONS]
        seen["shown"] += [one.blocks[0].text for one in said if one.blocks]
        seen["rewards"] = [one.reward for one in said]
        seen["is_over"] = [one.finished for one in said]
    return seen


print(json.dumps(main(sys.argv[1])))
