"""A live episode in the child: one instance of the environment, taken through its turns."""

from dataclasses import replace
from typing import Any

from warren.environment import Context, Env, Sampled
from warren.episode_transcript import Ending
from warren_env_worker.host.child import contract
from warren_env_worker.host.child.caller import Calling
from warren_env_worker.host.child.episode_record import EpisodeRecord
from warren_env_worker.host.protocol import Observed, Start
from warren_env_worker.host.refusal import error_refusal
from warren_env_worker.host_services.client import EpisodeServices
from warren_env_worker.host_services.connecting import front
from warren_env_worker.rewards.scored import ScoredGroup


class LiveEpisode:
    """All methods raise `Refusal`, or what user code raises; the episode is of no use then."""

    def __init__(self, environment: Env[Any], start: Start, caller: Calling) -> None:
        self._environment = environment
        self._limits = environment.limits
        secrets, keys = start.sealed.opened()
        self._host_services = EpisodeServices(front.connect, start.permissions.with_values(keys))
        self._context = replace(
            Context.derive(start.seed, start.split, start.index, start.member),
            level=start.level,
            tool_format=start.tool_format,
            secrets=secrets,
            max_box=start.permissions.agent_box,
            host_services=self._host_services,
        )
        self.secrets = start.sealed.opened_by_name()
        """That its run has."""
        self._demonstrates = start.demonstrates
        self._caller = caller
        self._max_turns = start.max_turns
        self._n_turns = 0
        self._record = EpisodeRecord(is_kept=type(environment).score is not Env.score)
        environment.context = self._context

    async def reset(self, call: int, task: object) -> Observed:
        environment, limit_s = self._environment, self._limits.reset_s
        shown = await self._caller.call(call, limit_s, environment.reset, task, self._context)
        messages, ids = contract.observation(shown, "reset()", self._limits.observation_chars)
        if not messages and not ids:
            raise error_refusal("reset() returned an empty observation; show the policy something")
        prompt = contract.prompt(await self._caller.call(call, limit_s, environment.system_message))
        if prompt is not None and ids:
            raise error_refusal("reset() returned PromptTokens: a system prompt must be among them")
        if prompt is not None:
            messages.insert(0, ("system", prompt))
        self._record.show(messages, ids)
        return Observed(
            id=call,
            messages=messages,
            ids=ids,
            digest=contract.digest(messages, ids=ids),
            task_id=contract.task_id(_told_id(environment, task)),
            category=contract.category(environment.category),
        )

    async def step(self, call: int, action: str, sampled: Sampled | None = None) -> Observed:
        step_s = self._limits.step_s
        if sampled is not None:
            self._environment.sampled = sampled
        result = contract.step_result(
            await self._caller.call(call, step_s, self._environment.step, action)
        )
        self._n_turns += 1
        reward, metrics = contract.reward(result.reward), contract.metrics(result.metrics)
        earlier = contract.earlier(result.earlier, self._n_turns)
        messages, ids = contract.observation(
            result.observation, "step()", self._limits.observation_chars
        )
        after = contract.after(result.after, self._n_turns)
        self._record.act(action, reward, metrics, earlier)
        self._record.show(messages, ids)
        is_cut = bool(result.truncated) or (self._n_turns >= self._max_turns and not result.done)
        if result.done or is_cut:
            reward, metrics = await self._scored(call, reward, metrics, is_cut=is_cut)
        return Observed(
            id=call,
            messages=messages,
            ids=ids,
            digest=contract.digest(messages, after, ids),
            reward=reward,
            is_over=bool(result.done) or is_cut,
            is_truncated=is_cut,
            metrics=metrics,
            after=after,
            earlier=earlier,
            gold=contract.known(self._environment.gold_answer, "gold_answer"),
            data_source=contract.known(self._environment.data_source, "data_source") or "",
        )

    async def _scored(
        self, call: int, reward: float | None, metrics: dict[str, float], *, is_cut: bool
    ) -> tuple[float | None, dict[str, float]]:
        """The last turn's reward and metrics with what `score` adds."""
        transcript = self._record.transcript(self._ending(is_cut=is_cut))
        scored = contract.score(
            await self._caller.call(call, self._limits.score_s, self._environment.score, transcript)
        )
        if scored is None:
            return reward, metrics
        total, parts = scored
        return total if reward is None else reward + total, metrics | parts

    async def score_group(self, call: int, group: ScoredGroup, task: object) -> Observed:
        """What the episodes of a group are worth beside each other; this is none of them."""
        compare, members = self._environment.score_group, group.transcripts
        given = await self._caller.call(call, self._limits.score_s, compare, members, task)
        scores = contract.group_scores(given, len(members))
        return Observed(id=call, is_over=True, scores=scores)

    def _ending(self, *, is_cut: bool) -> Ending:
        if not is_cut:
            return "done"
        return "max_turns" if self._n_turns >= self._max_turns else "truncated"

    async def with_demonstration(self, observed: Observed) -> Observed:
        """The same with a demonstrated action, if this episode is one of demonstrations."""
        if not self._demonstrates or observed.is_over:
            return observed
        rng = self._context.demonstration_rng(self._n_turns)
        action = await self._caller.call(
            observed.id, self._limits.step_s, self._environment.demonstrate, rng
        )
        return replace(observed, demonstration=contract.action(action))

    async def close(self, call: int) -> None:
        try:
            await self._caller.call(call, self._limits.step_s, self._environment.close)
        finally:
            self.let_go()

    def let_go(self) -> None:
        """End the host services that it has used."""
        self._host_services.close()


def _told_id(environment: Env[Any], task: object) -> str | None:
    """What `reset` said counts, or else what the task itself says."""
    return environment.task_id if environment.task_id is not None else environment.id_of(task)
