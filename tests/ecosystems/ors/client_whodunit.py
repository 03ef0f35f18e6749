"""What OpenReward's own client does with a key: `python client_whodunit.py URL`; prints JSON.

The secrets that it would send to OpenReward, and what an episode of the server at the URL gave.
"""

import base64
import json
import os
import sys
from importlib import import_module
from typing import Any

os.environ |= {
    "OPENREWARD_API_KEY": "key",
    "OPENREWARD_SESSION_URL": sys.argv[1],
    "OPENREWARD_DISABLE_UPDATE_CHECK": "1",
}
openreward: Any = import_module("openreward")  # untyped here: it is not in our environment
theirs: Any = import_module("openreward.api.sandboxes.secrets")
HOME = ("https://sessions.openreward.ai", "https://api.openreward.ai")


def sent() -> Any:
    named = dict.fromkeys(theirs.WELL_KNOWN_SECRETS, "value")
    header = theirs.build_secrets_header(theirs.augment_secrets_with_api_key(named, "key", *HOME))
    return json.loads(base64.b64decode(header))


def played() -> list[Any]:
    client = openreward.OpenReward()
    environment = client.environments.get("GeneralReasoning/WhoDunit")
    license = {"other_key": ("of-the-house", ["example.org"])}
    with environment.session(split="train", index=3, secrets=license) as session:
        ended = session.call_terminal_tool("Q3")
        return [ended.reward, ended.finished]


print(json.dumps({"sent": sent(), "played": played()}))
