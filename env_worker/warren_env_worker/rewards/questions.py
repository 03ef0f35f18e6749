"""What a judge is asked, and what its words mean.

Invariant: what the policy said is put into the prompt once, as it is: no placeholder within it is filled in.
"""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import orjson

from warren.environment import ChatMessage
from warren_env_worker.rewards.scored import RewardFailed, Scored, ScoredGroup
from warren_schemas.config import (
    GroupJudgement,
    JsonScore,
    Judgement,
    JudgePart,
    ListScore,
    NumberScore,
    RankingScore,
)

_PLACEHOLDER = re.compile(r"\{(response|messages|task|gold|own_reward)\}")
_OF_GROUP = re.compile(r"\{(responses|transcripts|task|n)\}")
_WHOLE_NUMBER = re.compile(r"\d{1,9}")
_LIST = re.compile(r"\[[^\[\]]*\]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


def request(settings: JudgePart, asked: str) -> dict[str, object]:
    """The body of the request."""
    messages = [{"role": "user", "content": asked}]
    if settings.system is not None:
        messages.insert(0, {"role": "system", "content": settings.system})
    return {
        "model": settings.model,
        "messages": messages,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }


def prompt(template: str, scored: Scored) -> str:
    """Raises `RewardFailed` where it needs what the episode lacks."""
    known = _known(scored)

    def filled(found: re.Match[str]) -> str:
        value = known[found.group(1)]
        if value is None:
            raise RewardFailed(
                f"its prompt has {found.group()}, and the environment gave none", is_retryable=False
            )
        return value

    return _PLACEHOLDER.sub(filled, template)


def group_prompt(template: str, group: ScoredGroup) -> str:
    members = group.transcripts
    users = (message.content for message in members[0].messages if message.role == "user")
    known = {
        "responses": _numbered([each.response for each in members]),
        "transcripts": _numbered([_conversation(each.messages) for each in members]),
        "task": next(users, ""),
        "n": str(len(members)),
    }
    return _OF_GROUP.sub(lambda found: known[found.group(1)], template)


def _numbered(texts: Sequence[str]) -> str:
    return "\n\n".join(f"[{number}]\n{text}" for number, text in enumerate(texts, 1))


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


def scores_in(answer: str, how: GroupJudgement, n: int) -> list[float] | None:
    """From 0 to 1, of `n` episodes in their order; None where the answer holds no such scores."""
    if isinstance(how, RankingScore):
        return _ranked(answer, how.after, n)
    found = _LIST.findall(answer)
    try:
        values = cast("list[object]", orjson.loads(found[-1])) if found else list[object]()
    except ValueError:
        return None
    scaled = [_scaled(_number(value), how) for value in values]
    given = [value for value in scaled if value is not None]
    return given if len(given) == len(values) == n else None


def _ranked(answer: str, after: str, n: int) -> list[float] | None:
    _, is_there, behind = answer.rpartition(after) if after else ("", "-", answer)
    found = [int(number) for number in _WHOLE_NUMBER.findall(behind)] if is_there else []
    places = found[:n] if after else found[-n:]
    if sorted(places) != list(range(1, n + 1)):
        return None
    return [1.0 - places.index(number) / max(n - 1, 1) for number in range(1, n + 1)]


def _number(value: object) -> float | None:
    """None for what is none, true and false among that."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _scaled(value: float | bool | None, scale: NumberScore | JsonScore | ListScore) -> float | None:
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
