"""What schemathesis asks otherwise than it would, and what is no failure; it alone imports this.

- Every answer is noted, so that they can be counted: phase and status.
- Nobody follows what may never end: such a request would only wait for its timeout.
- Nobody revokes or rotates the key that all this is asked with, or sets limits of its user: who may send a request
  in a minute would try nothing more.
- A user who was removed is not there any more: schemathesis knows only of what DELETE takes away.
- Data that fits the document may still be refused for a rule that JSON Schema can't say: two keys that
  exclude each other, a run that isn't there. It may not for what it can say: a type, a bound, a key that
  is missing or unknown. What a file of a user's says, an `adapter_config.json`, is not the document's.
"""

import os
import re
from pathlib import Path
from typing import cast

import schemathesis
from schemathesis.core.failures import ResponseTimeExceeded
from schemathesis.openapi.checks import EnsureResourceAvailability, RejectedPositiveData

YES = ("true", "1", "t", "y", "yes", "on")
SAYABLE = re.compile(r": (missing|unknown key|expected (?!a JSON object as text|a data: URL))")
"""What the gateway says of a mistake that the document could have told."""

OWN_KEY = os.environ["WARREN_API_KEY"].split("_")[1]
"""Its id."""
OWN_USER = "local"

REMOVING = re.compile(r"(/v1/users/.+)/remove")

_removed: set[str] = set()
"""Paths of users."""

_answers = Path(os.environ["ANSWERS"]).open("a", buffering=1)  # noqa: SIM115  open until the end


@schemathesis.hook
def after_call(
    context: schemathesis.HookContext, case: schemathesis.Case, response: schemathesis.Response
) -> None:
    phase = case.meta.phase.name.value if case.meta else "other"
    _answers.write(f"{phase} {response.status_code}\n")
    removing = REMOVING.fullmatch(case.formatted_path)
    if removing and response.status_code == 200:
        _removed.add(removing[1])


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, object]
) -> None:
    query = case.query or {}
    if str(query.get("follow")).lower() in YES:
        query["follow"] = "false"
    named = cast("dict[str, object]", getattr(case, "path_parameters", None) or {})
    if OWN_KEY in str(named.get("key_id")):
        named["key_id"] = "another"
    if named.get("user") == OWN_USER and case.path.endswith("/limits"):
        named["user"] = "another"


@schemathesis.hook
def filter_failure(
    context: schemathesis.HookContext,
    failure: Exception,
    case: schemathesis.Case,
    response: schemathesis.Response,
) -> bool:
    """Whether it is one."""
    if isinstance(failure, ResponseTimeExceeded):
        return "text/event-stream" not in response.headers.get("content-type", [""])[0]
    if isinstance(failure, EnsureResourceAvailability):
        return case.formatted_path.removesuffix("/limits") not in _removed
    if not isinstance(failure, RejectedPositiveData):
        return True
    if case.path == "/v1/env-workers/connect":  # no request, but the beginning of a WebSocket
        return response.status_code != 426
    if '"code":"wrong_adapter"' in response.text:
        return False
    return response.status_code not in (400, 410, 422) or bool(SAYABLE.search(response.text))
