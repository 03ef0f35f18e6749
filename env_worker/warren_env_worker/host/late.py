"""What to say of a call of user code that was over its time: which limit of its class it was, so that its author can raise it."""

import math
from collections.abc import Mapping
from typing import Any

from warren.environment import Env

_OURS = "warren_env_worker."


def raisable_s(environment: type[Env[Any]]) -> dict[str, float]:
    """How long calls of this class may take, by the limit's name; nothing of a class of ours, which no user can change."""
    if environment.__module__.startswith(_OURS):
        return {}
    limits = environment.limits
    return {
        "reset_s": limits.reset_s, "step_s": limits.step_s, "score_s": limits.score_s, "load_s": limits.load_s,
    }  # fmt: skip


def too_long(limit_s: float, limits_s: Mapping[str, float], where: str = "") -> str:
    """As a sentence of the call. `limits_s` are those of its class, `where` it waits, as the end of a sentence.

    Limits of equal length are all named: the cell in which a call stands holds its length alone.
    """
    names = [f"Limits.{name}" for name, each_s in limits_s.items() if math.isclose(each_s, limit_s)]
    remedy = f"; if it needs more, raise {' or '.join(names)} of its class" if names else ""
    return f"took longer than {limit_s:g} s{remedy}{where}"
