"""Tasks of NeMo Gym in the environments of a `GymnasiumServer`, which answers every turn and rewards it.

    environments:
      - name: nemo_gymnasium
        config: {url: "http://gym.example.org:8000/", path: "sokoban/{split}.jsonl"}

`reset` gets the row, and `step` the items of each turn; the observation is shown as a message of the user. Calls of the row's tools are
made by the server itself, and what they gave is shown as messages of the role `tool`.

Metrics: the numbers in the `info` of a step; and where there are tools, `tool_calls`, `tool_errors`, `parse_errors`.
"""

from collections.abc import Sequence

from warren.environment import ChatMessage, Context, EpisodeTranscript, StepResult
from warren_env_worker.environments.mcp.answers import within
from warren_env_worker.environments.nemo_gym.answers import OBSERVED, STEPPED
from warren_env_worker.environments.nemo_gym.connection import GymFailed
from warren_env_worker.environments.nemo_gym.environment import NemoGym, call_in
from warren_env_worker.environments.nemo_gym.session import GymSession


class NemoGymnasium(NemoGym):
    name = "nemo_gymnasium"
    version = "1"
    needs_prompt = False  # `reset` may have some

    async def reset(self, task: bytes, ctx: Context) -> Sequence[ChatMessage]:
        self.begin(task, ctx)
        self.session = GymSession(
            self.service, self.task.row, patience_s=self.patience_s, begins_with="reset"
        )
        first = self.session.read(OBSERVED, "reset", await self.session.open())
        shown = [*self.task.messages, *self._shown(first.observation)]
        if not shown:
            raise GymFailed(
                f"{self.service.url}: neither the row nor reset has words for the policy"
            )
        return shown

    async def step(self, action: str) -> StepResult:
        response = self._said(action)
        answer = await self.playing.call("step", {**self.task.row, "response": response})
        stepped = self.playing.read(STEPPED, "step", answer)
        given = [each.output for each in stepped.info.tool_outputs]
        shown = [ChatMessage(role="tool", content=within(e, self.result_chars)) for e in given]
        return StepResult(
            [*shown, *self._shown(stepped.observation)],
            stepped.reward,
            stepped.terminated,
            stepped.truncated,
            stepped.info.numbers | self.counts,
        )

    async def score(self, transcript: EpisodeTranscript) -> None:
        """Its steps gave the rewards."""

    def _said(self, action: str) -> dict[str, object]:
        """The turn, as `step` takes it."""
        n_before = len(self.items)
        calls = self.calls.read(action) if self.task.tools else []
        made = calls[:1] if self.task.takes_one_call else calls
        found = [call for each in made if (call := call_in(each)) is not None]
        self.items.said(action, before_calls=bool(found))
        for call in found:
            self.items.called(call)
            if call.name in self.calls.tools:
                self.calls.count(is_refused=False)
        return self.items.response(since=n_before)

    def _shown(self, observation: str | None) -> list[ChatMessage]:
        return [ChatMessage(role="user", content=observation)] if observation else []
