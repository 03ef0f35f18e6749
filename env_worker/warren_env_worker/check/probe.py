"""Playing an environment in this process, held against its contract and its limits.

Invariant: a call of user code that outlives its limit is interrupted by a signal, so that a check
ends whatever is checked (unless it blocks in native code for ever).
"""

import asyncio
import inspect
import random
import signal
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from warren.environment import Context, Env, NoDemonstrations
from warren_env_worker.host import contract
from warren_env_worker.host.catalogue import Catalogue
from warren_env_worker.host.protocol import Config, Message, Start
from warren_env_worker.host.refusal import Refusal, blame

MAX_TURNS = 64
Policy = Callable[[Env[Any], int], str]
"""From the live environment and the turn to an action."""


@dataclass(slots=True)
class Played:
    """One episode, as far as it went."""

    digests: list[str] = field(default_factory=list[str])
    shown: list[str] = field(default_factory=list[str])
    """The texts of what was shown, observation by observation."""
    actions: list[str] = field(default_factory=list[str])
    reward: float | None = None
    longest_s: dict[str, float] = field(default_factory=dict[str, float])
    is_over: bool = False


class Probe:
    """Raises `Refusal`, with one line for a person, for whatever user code does wrong."""

    def __init__(self, environment: type[Env[Any]], config: Config, split: str) -> None:
        self.environment = environment
        self._package = environment.__module__.partition(".")[0]
        self._config = config
        self._split = split
        self._catalogue = Catalogue(environment)

    def start(self, index: int, member: int = 0) -> Start:
        return Start(
            config=self._config, seed=11, member=member, max_turns=MAX_TURNS, split=self._split,
            index=index, order_seed=0, shuffle=True, num_samples=None, demonstrates=False,
            tool_format=None, secrets=(),
        )  # fmt: skip

    def play(self, index: int, policy: Policy) -> Played:
        """An episode of the `index`-th task."""
        try:
            return asyncio.run(self._play(self.start(index), policy))
        except Refusal:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise blame(error, self._package) from error

    async def _play(self, start: Start, policy: Policy) -> Played:
        limits, played = self.environment.limits, Played()
        if not self._catalogue.has_loaded(start):
            with _limited("tasks()", limits.load_s, played):
                self._catalogue.load(start)
        environment = self._catalogue.make(start.config)
        ctx = Context.derive(start.seed, start.split, start.index, start.member)
        environment.context = ctx
        with _limited("reset()", limits.reset_s, played):
            shown = await _result(environment.reset(self._catalogue.task(start), ctx))
        _note(played, contract.messages(shown, "reset()", limits.observation_chars))
        for turn in range(MAX_TURNS):
            action = policy(environment, turn)
            played.actions.append(action)
            with _limited("step()", limits.step_s, played):
                result = contract.step_result(await _result(environment.step(action)))
            contract.metrics(result.metrics)
            _reward(played, contract.reward(result.reward))
            _note(played, contract.messages(result.observation, "step()", limits.observation_chars))
            if result.done or result.truncated:
                played.is_over = True
                break
        with _limited("score()", limits.score_s, played):
            scored = contract.score(await _result(environment.score()))
        _reward(played, scored[0] if scored else None)
        with _limited("close()", limits.step_s, played):
            await _result(environment.close())
        return played


def demonstrated(environment: Env[Any], turn: int) -> str:
    """What the environment itself would say. Raises `NoDemonstrations`."""
    return environment.demonstrate(environment.context.demonstration_rng(turn))


def saying(words: Iterable[str]) -> Policy:
    """These words, turn by turn, the last one again and again."""
    listed = list(words)
    return lambda _, turn: listed[min(turn, len(listed) - 1)]


def can_demonstrate(environment: type[Env[Any]]) -> bool:
    return environment.demonstrate is not Env.demonstrate


__all__ = [
    "NoDemonstrations",
    "Played",
    "Policy",
    "Probe",
    "can_demonstrate",
    "demonstrated",
    "saying",
]


async def _result(value: Any) -> Any:
    return await _any(value) if inspect.isawaitable(value) else value


async def _any(value: Awaitable[Any]) -> Any:
    return await value


def _note(played: Played, messages: list[Message]) -> None:
    played.digests.append(contract.digest(messages))
    played.shown.append("\n".join(message[1] for message in messages))


def _reward(played: Played, reward: float | None) -> None:
    if reward is not None:
        played.reward = (played.reward or 0.0) + reward


@contextmanager
def _limited(where: str, limit_s: float, played: Played) -> Generator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"{where} took longer than {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    begun_s = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        taken_s = time.monotonic() - begun_s
        played.longest_s[where] = max(taken_s, played.longest_s.get(where, 0.0))


def shuffle_global_chance(seed: int) -> None:
    """Another state of the global random generators."""
    import sys

    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
