"""Plays by the client of ors-sdk, in the environment of `ors.txt`: `client_ors.py URL`; prints JSON."""

import json
import sys
from importlib import import_module
from typing import Any

ors: Any = import_module("ors.client")  # untyped here: it is not in our environment


def main(url: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    with ors.ORS(base_url=url, api_key="key") as client:
        vault = client.environment("vault")
        seen["splits"] = vault.list_splits()
        seen["n"] = vault.num_tasks("test")
        tasks = vault.get_task_range("train", 3, 5)
        seen["ids"] = [task.task_spec["id"] for task in tasks]
        seen["tools"] = [tool.name for tool in vault.list_tools()]
        with vault.session(task=tasks[0]) as session:
            seen["prompt"] = [block.type for block in session.get_prompt()]
            looked = session.call_tool("look", {"place": 3})
            seen["looked"] = [looked.blocks[0].text[0], looked.reward, looked.finished]
            try:
                session.call_tool("look", {"place": "x"})
            except ors.ToolCallError as error:
                seen["refused"] = str(error)
            ended = session.call_tool("answer", {"text": "1003"})
            seen["ended"] = [ended.reward, ended.finished]
        guess = client.environment("guess")  # sends no name with split and index, but a path
        with guess.session(split="train", index=2) as session:
            seen["guess"] = (session.get_prompt())[0].text
            said = [session.call_tool("act", {"action": str(n)}) for n in (9, 9, 9, 9)]
            seen["guessed"] = [[one.reward, one.finished] for one in said]
    return seen


print(json.dumps(main(sys.argv[1])))
