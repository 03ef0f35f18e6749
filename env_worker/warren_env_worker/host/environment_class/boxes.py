"""The boxes that classes of agents ask for: whether they work here, and whether the operator allows them.

Those are told before an episode is taken; what holds for an episode is decided where it is played
(`warren.agents.box.offering`). Invariant: nothing of agents is imported for environments that are none.
"""

from typing import Any

from warren.environment import ConfigError, Env
from warren_schemas.isolation.agent_box import Box
from warren_schemas.operator_policy import OperatorPolicy


def box_of(environment: type[Env[Any]]) -> Box | None:
    """That its programs ask for."""
    box = getattr(environment, "box", None)
    return box if isinstance(box, Box) else None


def why_no_box(environment: type[Env[Any]]) -> str:
    """Why the programs of this class can't be put into the box that it asks for; empty if they can."""
    box = box_of(environment)
    if box is None:
        return ""
    from warren.agents.box.offering import require_boxes, shown_folder
    from warren.isolation.errors import CannotIsolate

    try:
        shown_folder(getattr(environment, "folder", None))
        require_boxes(box)
    except (ConfigError, CannotIsolate) as error:
        return str(error)
    return ""


def why_refused(box: Box | None, policy: OperatorPolicy) -> str:
    """Why this policy refuses a class that asks for this box; empty if it does not."""
    if box is None or policy.agents.box is None:
        return ""
    from warren.agents.box.offering import granted

    try:
        granted(box, policy.agents.box)
    except ConfigError as error:
        return str(error)
    return ""
