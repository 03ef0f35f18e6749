"""Playing an environment in this process, held against its contract and its limits (`limits`)."""

import asyncio
import inspect
import math
import random
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from warren.environment import Context, Env, NoDemonstrations
from warren.episode_transcript import Ending, EpisodeTranscript
from warren_env_worker.check.limits import CallLimits, TookTooLong
from warren_env_worker.host.child import contract
from warren_env_worker.host.child.episode_record import EpisodeRecord
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.protocol import Config, Message, Start
from warren_env_worker.host.refusal import Refusal, blame, error_refusal
from warren_env_worker.host_services.client import EpisodeServices
from warren_env_worker.host_services.local import offered
from warren_env_worker.output.stack import own_root
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.permissions.sealed import NOTHING

MAX_TURNS = 64
ResultT = TypeVar("ResultT")
Policy = Callable[[Env[Any], int], str | Awaitable[str]]
"""From the live environment and the turn to an action."""
Announce = Callable[[str], None]
"""Told the name of each episode before it begins."""


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
    transcript: EpisodeTranscript = field(default_factory=lambda: EpisodeTranscript(()))
    """With what `score` gave."""


class Probe:
    """Raises `Refusal`, with one line for a person, for whatever user code does wrong."""

    def __init__(
        self,
        environment: type[Env[Any]],
        config: Config,
        split: str,
        *,
        announce: Announce = lambda _: None,
        watch: int | None = None,
    ) -> None:
        """`watch` is a descriptor to which the stack of a call is written that no signal ends."""
        self.environment = environment
        self._package = environment.__module__.partition(".")[0]
        self.root = own_root(environment)
        """Where its own code lies."""
        self._announce = announce
        self._watch = watch
        self._n_episodes = 0
        self._known: dict[tuple[int, str | None], Played] = {}
        self._config = config
        self._split = split
        self._task_cache = TaskCache(environment)

    def start(self, index: int, member: int = 0) -> Start:
        return Start(
            config=self._config, seed=11, member=member, max_turns=MAX_TURNS, split=self._split,
            index=index, order_seed=0, shuffle=True, num_samples=None, task_ids=(), demonstrates=False,
            tool_format=None, sealed=NOTHING, permissions=TRUSTED, tag="",
        )  # fmt: skip

    def play(
        self,
        index: int,
        policy: Policy,
        *,
        max_turns: int = MAX_TURNS,
        until_s: float = math.inf,
    ) -> Played:
        """An episode of the `index`-th task; no turn begins after `until_s` of the monotonic clock."""
        self._n_episodes += 1
        self._announce(f"episode {self._n_episodes}, task {index}")
        return self._run(self._play(self.start(index), policy, max_turns, until_s))

    def compare(self, index: int, group: Sequence[EpisodeTranscript]) -> list[float]:
        """What `score_group` gives each of these episodes of the `index`-th task."""
        self._announce(f"a group of {len(group)}, task {index}")
        return self._run(self._compare(self.start(index), group))

    def _run(self, call: Coroutine[Any, Any, ResultT]) -> ResultT:
        try:
            return asyncio.run(call)
        except Refusal:
            raise
        except TookTooLong as late:
            raise error_refusal(str(late)) from late
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise blame(error, self._package) from error

    def task_ids(self) -> Sequence[str | None]:
        """Of the tasks that an episode has loaded; none where the environment makes its own."""
        start = replace(self.start(0), lists_ids=True)
        return self._task_cache.ids(start) or () if self._task_cache.has_loaded(start) else ()

    def play_once(self, index: int, words: str | None) -> Played:
        """The episode in which these words are said at each turn, or what is demonstrated; several
        checks look at the same one."""
        key = (index, words)
        if key not in self._known:
            self._known[key] = self.play(index, demonstrated if words is None else saying([words]))
        return self._known[key]

    async def _play(self, start: Start, policy: Policy, max_turns: int, until_s: float) -> Played:
        with offered() as host_services:
            return await self._played(start, policy, max_turns, until_s, host_services)

    async def _compare(self, start: Start, group: Sequence[EpisodeTranscript]) -> list[float]:
        calls = CallLimits(self.root, self._watch)
        with offered() as host_services:
            environment = await self._made(start, calls, host_services)
            task = self._task_cache.task(start)
            with calls.limited("score_group()", environment.limits.score_s):
                given = await _result(environment.score_group(group, task))
        return [reward for reward, _ in contract.group_scores(given, len(group))]

    async def _made(
        self, start: Start, calls: CallLimits, host_services: EpisodeServices
    ) -> Env[Any]:
        """A fresh instance, whose tasks are loaded."""
        limits = self.environment.limits
        if not self._task_cache.has_loaded(start):
            with calls.limited("tasks()", limits.load_s):
                await _result(self._task_cache.load(start))
        with calls.limited("the constructor", limits.reset_s):
            environment = self._task_cache.make(start)
        ctx = Context.derive(start.seed, start.split, start.index, start.member)
        environment.context = replace(ctx, host_services=host_services)
        return environment

    async def _played(
        self,
        start: Start,
        policy: Policy,
        max_turns: int,
        until_s: float,
        host_services: EpisodeServices,
    ) -> Played:
        calls = CallLimits(self.root, self._watch)
        limits, played = self.environment.limits, Played(longest_s=calls.longest_s)
        environment = await self._made(start, calls, host_services)
        task, ctx = self._task_cache.task(start), environment.context
        with calls.limited("reset()", limits.reset_s):
            shown = await _result(environment.reset(task, ctx))
        messages, ids = contract.observation(shown, "reset()", limits.observation_chars)
        with calls.limited("system_prompt()", limits.reset_s):
            prompt = contract.prompt(environment.system_message())
        if prompt is not None:
            messages.insert(0, ("system", prompt))
        _note(played, messages, ids)
        record = EpisodeRecord(is_kept=True)
        record.show(messages, ids)
        ending: Ending = "max_turns"
        for turn in range(max_turns):
            if time.monotonic() > until_s:
                break
            with calls.limited("demonstrate()", limits.step_s):
                action: str = await _result(policy(environment, turn))
            played.actions.append(action)
            with calls.limited("step()", limits.step_s):
                result = contract.step_result(await _result(environment.step(action)))
            reward, metrics = contract.reward(result.reward), contract.metrics(result.metrics)
            _reward(played, reward)
            shown, ids = contract.observation(
                result.observation, "step()", limits.observation_chars
            )
            _note(played, shown, ids)
            record.act(action, reward, metrics, contract.earlier(result.earlier, turn + 1))
            record.show(shown, ids)
            if result.done or result.truncated:
                played.is_over, ending = True, "truncated" if result.truncated else "done"
                break
        transcript = record.transcript(ending)
        with calls.limited("score()", limits.score_s):
            scored = contract.score(await _result(environment.score(transcript)))
        _reward(played, scored[0] if scored else None)
        played.transcript = _scored(transcript, scored)
        with calls.limited("close()", limits.step_s):
            await _result(environment.close())
        return played


def demonstrated(environment: Env[Any], turn: int) -> str | Awaitable[str]:
    """What the environment itself would say. Raises `NoDemonstrations`."""
    return environment.demonstrate(environment.context.demonstration_rng(turn))


def saying(words: Iterable[str]) -> Policy:
    """These words, turn by turn, the last one again and again."""
    listed = list(words)
    return lambda _, turn: listed[min(turn, len(listed) - 1)]


def can_demonstrate(environment: type[Env[Any]]) -> bool:
    return environment.demonstrate is not Env.demonstrate


def can_compare(environment: type[Env[Any]]) -> bool:
    return environment.score_group is not Env.score_group


__all__ = [
    "NoDemonstrations",
    "Played",
    "Policy",
    "Probe",
    "can_compare",
    "can_demonstrate",
    "demonstrated",
    "saying",
]


async def _result(value: Any) -> Any:
    return await _any(value) if inspect.isawaitable(value) else value


async def _any(value: Awaitable[Any]) -> Any:
    return await value


def _note(played: Played, messages: list[Message], ids: list[int]) -> None:
    played.digests.append(contract.digest(messages, ids=ids))
    played.shown.append("\n".join(message[1] for message in messages))


def _scored(
    transcript: EpisodeTranscript, scored: tuple[float, dict[str, float]] | None
) -> EpisodeTranscript:
    """With what `score` gave, added to the last turn's reward."""
    if scored is None or not transcript.rewards:
        return transcript
    (total, parts), (*before, last) = scored, transcript.rewards
    rewards = (*before, total + (last or 0.0))
    return replace(transcript, rewards=rewards, metrics={**transcript.metrics, **parts})


def _reward(played: Played, reward: float | None) -> None:
    if reward is not None:
        played.reward = (played.reward or 0.0) + reward


def shuffle_global_chance(seed: int) -> None:
    """Another state of the global random generators."""
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
