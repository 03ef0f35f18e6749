"""What user code returned, held against the contract of `warren.environment`.

Every function here raises `Refusal` with a line that says what was expected and what came.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from operator import index
from typing import cast

import orjson

from warren.environment import ChatMessage, PromptTokens, ScoreResult, StepResult
from warren_env_worker.host.protocol import Message, Picture
from warren_env_worker.host.refusal import Refusal, error_refusal
from warren_schemas.episode import FailureKind
from warren_schemas.ids import MAX_TASK_ID_CHARS
from warren_schemas.transcript import MAX_CATEGORY_CHARS

MAX_MESSAGES = 1000
"""Most messages of one observation."""
MAX_TOKEN_ID = 2**31 - 1
"""Tokens travel as 32-bit integers."""


def observation(shown: object, where: str, max_chars: int) -> tuple[list[Message], list[int]]:
    """What is shown as messages, or as tokens."""
    return messages(shown, where, max_chars), prompt_ids(shown, where, max_chars)


def messages(shown: object, where: str, max_chars: int) -> list[Message]:
    """An observation as messages; none for an empty text, and for tokens (`prompt_ids`)."""
    if isinstance(shown, PromptTokens):
        return []
    listed = _listed(shown, where)
    if len(listed) > MAX_MESSAGES:
        raise error_refusal(f"{where} returned {len(listed)} messages; {MAX_MESSAGES} can be sent")
    n_chars = sum(message.n_chars for message in listed)
    if n_chars > max_chars:
        raise error_refusal(
            f"{where} returned an observation of {n_chars} characters"
            f"{_with_images(listed)}; Limits.observation_chars of its class is {max_chars}"
        )
    return [_packed(message) for message in listed]


def prompt_ids(shown: object, where: str, max_chars: int) -> list[int]:
    """The tokens of an observation that is told in tokens; none for one of messages."""
    if not isinstance(shown, PromptTokens):
        return []
    n_tokens = len(shown.ids)
    if n_tokens == 0:
        raise error_refusal(f"{where} returned PromptTokens without a token; show one or more")
    if n_tokens > max_chars:  # before they are looked at one by one
        raise error_refusal(
            f"{where} returned {n_tokens} tokens; Limits.observation_chars of its class is {max_chars}"
        )
    return [_token_id(each, where) for each in shown.ids]


def _token_id(value: object, where: str) -> int:
    try:
        number = index(cast("int", value))
    except TypeError:
        raise _unexpected(where, "numbers as PromptTokens", value) from None
    if not 0 <= number <= MAX_TOKEN_ID:
        raise error_refusal(f"{where} returned the token {number}; expected 0 to {MAX_TOKEN_ID}")
    return number


def _listed(shown: object, where: str) -> list[ChatMessage]:
    if isinstance(shown, str):
        return [ChatMessage.model_construct(role="user", content=shown)] if shown else []
    if not isinstance(shown, Sequence):
        raise _unexpected(where, "a str, a list of ChatMessage or PromptTokens", shown)
    return [_checked(each, where) for each in cast("Sequence[object]", shown)]


def _with_images(listed: Sequence[ChatMessage]) -> str:
    return ", its images in base64 among them" if any(m.images for m in listed) else ""


def _checked(each: object, where: str) -> ChatMessage:
    if not isinstance(each, ChatMessage):
        raise _unexpected(where, "a list of ChatMessage", each, "a list with")
    if each.is_action:
        raise error_refusal(
            f"{where} returned a message of the role assistant, the policy's own; with is_quoted=True"
            " it is shown as words that the policy did not say here"
        )
    return each


def _packed(message: ChatMessage) -> Message:
    if not message.images:
        return (message.role, message.content)
    pictures: list[Picture] = [(image.media_type, image.base64) for image in message.images]
    return (message.role, message.content, pictures)


def after(value: object, n_turns: int) -> int | None:
    """Behind which action the observation stands; None for the last one."""
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value <= n_turns:
        raise error_refusal(f"step() returned after={value!r}; expected 0 to {n_turns}, or None")
    return None if value == n_turns else value


def digest(
    observation: Sequence[Message], after: int | None = None, ids: Sequence[int] = ()
) -> str:
    """BLAKE2b of the messages, or tokens, and where they stand, 16 hexadecimal digits."""
    shown = observation if after is None else (*observation, after)
    shown = (*shown, ids) if ids else shown
    try:
        canonical = orjson.dumps(shown)
    except orjson.JSONEncodeError as error:
        raise error_refusal(f"the observation can't be sent: {error}") from error
    return hashlib.blake2b(canonical, digest_size=8).hexdigest()


def prompt(value: object) -> str | None:
    """The system message."""
    if value is not None and not isinstance(value, str):
        raise _unexpected("system_prompt()", "a str or None", value)
    return value and _sendable(value)


def category(value: object) -> str | None:
    """What kind of task it is."""
    return _short_text("category", value, MAX_CATEGORY_CHARS)


def task_id(value: object) -> str | None:
    """Which task it is."""
    return _short_text("task_id", value, MAX_TASK_ID_CHARS)


def _short_text(what: str, value: object, most_chars: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise error_refusal(f"{what} must be a str or None; it is {type(value).__name__}")
    if not 0 < len(value) <= most_chars:
        raise error_refusal(
            f"the {what} has {len(value)} characters; 1 to {most_chars} can be sent"
        )
    return _sendable(value)


def known(value: object, name: str) -> str | None:
    """What the environment tells of the task by its attribute of this name."""
    if value is not None and not isinstance(value, str):
        raise error_refusal(f"{name} must be a str or None; it is {type(value).__name__}")
    return value and _sendable(value)


def step_result(value: object) -> StepResult:
    if not isinstance(value, StepResult):
        raise _unexpected("step()", "a StepResult", value)
    return value


def reward(value: object, where: str = "step()") -> float | None:
    if value is None:
        return None
    if not isinstance(value, Real):
        raise _invalid_reward(where, f"of type {type(value).__name__}; expected a number or None")
    number = _float(value)
    if not math.isfinite(number):
        raise _invalid_reward(where, str(number))
    return number


def earlier(value: object, n_turns: int) -> list[tuple[int, float]]:
    """Rewards of actions before the last one."""
    if not isinstance(value, Mapping):
        raise _unexpected("step()", "earlier as a dict", value)
    given = cast("Mapping[object, object]", value)
    return [(_earlier_turn(key, n_turns), _earlier_reward(each)) for key, each in given.items()]


def _earlier_turn(key: object, n_turns: int) -> int:
    if not isinstance(key, int) or not 1 <= key < n_turns:
        raise error_refusal(
            f"step() returned the reward of an earlier action {key!r}; {n_turns - 1} came before this one"
        )
    return key


def _earlier_reward(value: object) -> float:
    number = reward(value)
    if number is None:
        raise _invalid_reward("step()", "None for an earlier action")
    return number


def score(value: object, where: str = "score()") -> tuple[float, dict[str, float]] | None:
    """The reward that `score` gave, with its parts or metrics; None where it gave none."""
    if isinstance(value, ScoreResult):
        total = reward(value.reward, where)
        return None if total is None else (total, metrics(value.metrics, where))
    if not isinstance(value, Mapping):
        total = reward(value, where)
        return None if total is None else (total, {})
    given = cast("Mapping[object, object]", value)
    parts = {_name(k, where): reward(v, where) for k, v in given.items()}
    known = {name: part for name, part in parts.items() if part is not None}
    return (sum(known.values()), known) if known else None


def group_scores(value: object, n_members: int) -> list[tuple[float, dict[str, float]]]:
    """The reward that `score_group` gave each of so many episodes, and its parts."""
    expected = f"a sequence of {n_members} rewards, one for each episode"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _unexpected("score_group()", expected, value)
    given = cast("Sequence[object]", value)
    if len(given) != n_members:
        raise error_refusal(f"score_group() must return {expected}; it returned {len(given)}")
    return [_group_score(each, number) for number, each in enumerate(given)]


def _group_score(value: object, number: int) -> tuple[float, dict[str, float]]:
    scored = score(value, where := f"score_group() at [{number}]")
    if scored is None:
        raise _invalid_reward(where, "None; expected a number, or named ones, for every episode")
    return scored


def metrics(value: object, where: str = "step()") -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise _unexpected(where, "metrics as a dict", value)
    given = cast("Mapping[object, object]", value)
    return {_name(k, where): _number(k, v, where) for k, v in given.items()}


def action(value: object) -> str:
    if not isinstance(value, str):
        raise _unexpected("demonstrate()", "a str", value)
    return _sendable(value)


def _name(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise _unexpected(where, "metrics with names of type str", key, "a name of type")
    return _sendable(key)


def _number(key: object, value: object, where: str) -> float:
    number = _float(value) if isinstance(value, Real) else math.nan
    if not math.isfinite(number):
        what = f"= {number}" if isinstance(value, Real) else f"of type {type(value).__name__}"
        raise error_refusal(f"{where} returned the metric {key} {what}; expected a number")
    return number


def _float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _sendable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise error_refusal(f"a text can't be sent: {error.reason}") from error
    return text


def _unexpected(where: str, expected: str, value: object, got: str = "") -> Refusal:
    got = f"{got} {type(value).__name__}".lstrip()
    return error_refusal(f"{where} must return {expected}; it returned {got}")


def _invalid_reward(where: str, what: str) -> Refusal:
    return Refusal(FailureKind.INVALID_REWARD, f"{where} returned the reward {what}")
