"""What a judge is asked, and what its words mean.

Invariant: what the policy said is put into the prompt once, as it is: no placeholder within it is filled in.
"""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import orjson

from warren.environment import ChatMessage
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_schemas.config import JsonScore, Judgement, JudgeReward, NumberScore

_PLACEHOLDER = re.compile(r"\{(response|messages|task|gold|own_reward)\}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


def request(settings: JudgeReward, scored: Scored) -> dict[str, object]:
    """The body of the request. Raises `RewardFailed` where the prompt needs what the episode lacks."""
    messages = [{"role": "user", "content": prompt(settings.prompt, scored)}]
    if settings.system is not None:
        messages.insert(0, {"role": "system", "content": settings.system})
    return {
        "model": settings.model,
        "messages": messages,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }


def prompt(template: str, scored: Scored) -> str:
    known = _known(scored)

    def filled(found: re.Match[str]) -> str:
        value = known[found.group(1)]
        if value is None:
            raise RewardFailed(
                f"its prompt has {found.group()}, and the environment gave none", is_retryable=False
            )
        return value

    return _PLACEHOLDER.sub(filled, template)


def _known(scored: Scored) -> Mapping[str, str | None]:
    users = (message.content for message in scored.messages if message.role == "user")
    own = scored.own_reward
    return {
        "response": scored.response,
        "messages": _conversation(scored.messages),
        "task": next(users, None),
        "gold": scored.gold,
        "own_reward": None if own is None else f"{own:g}",
    }


def _conversation(messages: Sequence[ChatMessage]) -> str:
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in messages)


def score_in(answer: str, how: Judgement) -> float | None:
    """From 0 to 1; None where the answer holds no score."""
    if isinstance(how, NumberScore):
        return _scaled(_number_in(answer, how.after), how)
    if isinstance(how, JsonScore):
        return _scaled(_field_in(answer, how.field), how)
    said = _YES_OR_NO.findall(answer)
    return float(said[-1].lower() == "yes") if said else None


def _scaled(value: float | bool | None, scale: NumberScore | JsonScore) -> float | None:
    if value is None or isinstance(value, bool):
        return value if value is None else float(value)
    if not scale.minimum <= value <= scale.maximum:
        return None
    return (value - scale.minimum) / (scale.maximum - scale.minimum)


def _number_in(answer: str, after: str) -> float | None:
    _, is_there, behind = answer.rpartition(after) if after else ("", "-", answer)
    found = _NUMBER.findall(behind) if is_there else []
    return float(found[0 if after else -1]) if found else None


def _field_in(answer: str, name: str) -> float | bool | None:
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        fields = orjson.loads(answer[begin : end + 1]) if begin >= 0 else None
    except ValueError:
        return None
    value = cast("dict[str, object]", fields).get(name) if isinstance(fields, dict) else None
    return (
        value
        if isinstance(value, bool)
        else float(value)
        if isinstance(value, int | float)
        else None
    )
