"""Try an environment without a worker, a broker or a model.

from warren.testing import play

episode = play(Guess(), lambda shown: "5", seed=3)
assert episode.reward == 1.0

Without a model there is no vocabulary: where an environment or an agent deals in tokens, they are the bytes of UTF-8.
"""

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from warren.agents.endpoint import stop_endpoint
from warren.environment import (
    ChatMessage,
    ConfigError,
    Context,
    Env,
    EpisodeTranscript,
    Observation,
    PromptTokens,
    Sampled,
    Score,
    ScoreResult,
    StepResult,
)
from warren.host_services import HostServices

Policy = Callable[[Sequence[ChatMessage]], str | Awaitable[str]]
"""From all messages so far to the next action."""
_ENV_WORKER = "warren_env_worker"
_HOST_SERVICES = f"{_ENV_WORKER}.host_services.local"
N_TOKENS = 256
"""That there are where nobody has a model."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode that was played."""

    messages: tuple[ChatMessage, ...]
    results: tuple[StepResult, ...] = field(default=())

    @property
    def transcript(self) -> EpisodeTranscript:
        """As `score_group` is told of it."""
        return _transcript(self.messages, self.results)

    @property
    def reward(self) -> float:
        """The sum of the rewards that were given."""
        return sum(result.reward for result in self.results if result.reward is not None)


def play(
    environment: Env[Any],
    policy: Policy,
    *,
    seed: int = 0,
    split: str = "train",
    index: int = 0,
    member: int = 0,
    level: int | None = None,
    max_turns: int = 32,
) -> Episode:
    """Play one episode to its end, or for `max_turns`; errors come through as they are raised.

    Tasks are taken in the order in which `tasks(split)` gives them. Raises `ConfigError` for a level where the class has
    none, as a run would.
    """
    if level is not None and not environment.has_levels:
        raise ConfigError(
            f"{type(environment).__name__} has no levels; a class whose reset() reads ctx.level says has_levels = True"
        )
    ctx = replace(Context.derive(seed, split, index, member), level=level)
    return asyncio.run(_play(environment, policy, ctx, max_turns))


def demonstrator(environment: Env[Any], *, seed: int = 0) -> Policy:
    """The policy that says what the environment demonstrates."""
    rng = random.Random(seed)
    return lambda _: environment.demonstrate(rng)


async def _play(environment: Env[Any], policy: Policy, ctx: Context, max_turns: int) -> Episode:
    tasks: Sequence[object] | None = await _result(environment.tasks(ctx.split))
    task = tasks[ctx.index % len(tasks)] if tasks is not None else None
    with _offered() as host_services:
        environment.context = replace(ctx, host_services=host_services)
        try:
            return await _played(environment, task, policy, max_turns)
        finally:
            await _result(environment.close())
            await stop_endpoint()


def _offered() -> AbstractContextManager[HostServices | None]:
    """By the env worker, which the SDK does not import; nothing where it is not installed."""
    if find_spec(_ENV_WORKER) is None:
        return nullcontext()
    offered: Callable[[], AbstractContextManager[HostServices]] = import_module(
        _HOST_SERVICES
    ).offered
    return offered()


async def _played(environment: Env[Any], task: object, policy: Policy, max_turns: int) -> Episode:
    shown = await _result(environment.reset(task, environment.context))
    prompt = environment.system_message()
    messages = [ChatMessage(role="system", content=prompt)] if prompt is not None else []
    messages += _listed(shown)
    told, results = _Told(messages), list[StepResult]()
    while len(results) < max_turns and not (results and _is_last(results[-1])):
        action: str = await _result(policy(told.conversation))
        if environment.sees_tokens:
            environment.sampled = _sampled(told.conversation, action)
        results.append(await _result(environment.step(action)))
        for number, reward in results[-1].earlier.items():
            results[number - 1] = replace(results[number - 1], reward=reward)
        if len(results) == max_turns or _is_last(results[-1]):
            transcript = _transcript([*told.messages, *_turn(action, results[-1])], results)
            results[-1] = _with_score(results[-1], await _result(environment.score(transcript)))
        told.turn(action, results[-1])
    return Episode(tuple(told.messages), tuple(results))


class _Told:
    """All that was said, and of that what the policy sees now."""

    def __init__(self, shown: Sequence[ChatMessage]) -> None:
        self.messages = list(shown)
        self.conversation = list(shown)
        self._up_to: list[list[ChatMessage]] = [[]]
        """By the number of an action: the conversation that it ended."""

    def turn(self, action: str, result: StepResult) -> None:
        said, *shown = _turn(action, result)
        self._up_to.append([*self.conversation, said])
        self.messages += [said, *shown]
        self.conversation = [*self._up_to[-1 if result.after is None else result.after], *shown]


def _turn(action: str, result: StepResult) -> list[ChatMessage]:
    return [ChatMessage(role="assistant", content=action), *_listed(result.observation)]


def _transcript(
    messages: Sequence[ChatMessage], results: Sequence[StepResult]
) -> EpisodeTranscript:
    metrics = {name: value for each in results for name, value in each.metrics.items()}
    last = results[-1]
    ending = "truncated" if last.truncated else "done" if last.done else "max_turns"
    return EpisodeTranscript(messages, [each.reward for each in results], metrics, ending)


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _with_score(result: StepResult, given: Score | ScoreResult) -> StepResult:
    if given is None:
        return result
    score = given if isinstance(given, ScoreResult) else _score_result(given)
    return replace(
        result,
        reward=score.reward + (result.reward or 0.0),
        metrics={**result.metrics, **score.metrics},
    )


def _score_result(given: float | Mapping[str, float]) -> ScoreResult:
    if isinstance(given, Mapping):
        return ScoreResult(sum(given.values()), given)
    return ScoreResult(given)


def _is_last(result: StepResult) -> bool:
    return result.done or result.truncated


def _sampled(conversation: Sequence[ChatMessage], action: str) -> Sampled:
    prompt = "".join(message.content for message in conversation)
    ids = action.encode()
    nothing = [0] * len(ids)
    return Sampled(prompt_ids=[*prompt.encode()], ids=[*ids], logprobs=nothing, versions=nothing)


def _words(ids: Sequence[int]) -> str:
    if strange := [token for token in ids if not 0 <= token < N_TOKENS]:
        raise ValueError(f"in play(), tokens are bytes of UTF-8; {strange[0]} is none")
    return bytes([*ids]).decode(errors="replace")


def _listed(shown: Observation) -> list[ChatMessage]:
    if isinstance(shown, PromptTokens):
        return [ChatMessage(role="user", content=_words(shown.ids), n_tokens=len(shown.ids))]
    if isinstance(shown, str):
        return [ChatMessage(role="user", content=shown)] if shown else []
    return list(shown)
