"""Plays by the client of openreward, in the environment of `openreward.txt`; prints JSON."""

import json
import os
import sys
from importlib import import_module
from typing import Any

url = sys.argv[1]
os.environ |= {
    "OPENREWARD_API_KEY": "key",
    "OPENREWARD_SESSION_URL": url,
    "OPENREWARD_API_URL": url,
    "OPENREWARD_DISABLE_UPDATE_CHECK": "1",
}
openreward: Any = import_module("openreward")  # untyped here: it is not in our environment
ToolFailed: Any = import_module("openreward.api.errors").ToolFailed


def main() -> dict[str, Any]:
    client, seen = openreward.OpenReward(), dict[str, Any]()
    vault = client.environments.get("me/vault")  # paths without a name, and a header
    seen["splits"] = vault.list_splits()
    seen["n"] = vault.num_tasks("test")
    task = vault.get_task("train", 3)
    seen["final"] = vault.is_assistant_message_final()
    with vault.session(task=task) as session:
        messages = session.get_messages()
        seen["roles"] = [message.role for message in messages]
        seen["system"] = messages[0].blocks[0].text
        seen["quoted"] = messages[2].blocks[0].text
        looked = session.call_tool("look", {"place": 0})
        seen["looked"] = [looked.blocks[0].text[0], looked.reward, looked.finished]
        ended = session.call_terminal_tool("1003")
        seen["ended"] = [ended.reward, ended.finished]
    with vault.session(split="train", index=3) as session:
        try:
            session.call_tool("kaput", {})
        except ToolFailed as error:
            seen["failed"] = str(error)
    named = client.environments.get("arithmetic", variant="arithmetic", base_url=url)
    with named.session(split="test", index=5) as session:
        seen["question"] = session.get_prompt()[0].text
        ended = session.call_terminal_tool("no number")
        seen["answered"] = [ended.reward, ended.finished]
    return seen


print(json.dumps(main()))
