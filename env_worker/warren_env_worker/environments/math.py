r"""Answer a mathematical question: one turn, with questions from a file.

The file is parquet or JSON lines in any of the layouts of `questions`. The answer is expected in
`\boxed{…}` unless `answer_form` says otherwise, and is right if the verifier finds it equal to the
file's: then the reward is 1, else 0. The right answer is never shown. An answer on which the verifier runs
out of time or memory gets 0 as well: who answers does not choose whether to be graded. A verifier that
fails otherwise, or a right answer that nothing can be compared with, fails the episode; it gives no reward.

Metrics: `exact` is 1 for a right answer; `answered`, `parseable`, `refused` and `timed_out` tell wrong ones
apart.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from warren.environment import (
    ChatMessage,
    ConfigError,
    Context,
    Env,
    Limits,
    StepResult,
    TaskError,
)
from warren.host_services.verdict import AnswerForm, Verdict
from warren_env_worker.environments.questions import Question, question, read_questions
from warren_env_worker.permissions.permissions import current
from warren_env_worker.verifier.verdict import GoldUnusable
from warren_env_worker.verifier.verifier import verify

INSTRUCTIONS = {
    AnswerForm.AUTO: r"Put your final answer within \boxed{}.",
    AnswerForm.BOXED: r"Put your final answer within \boxed{}.",
    AnswerForm.TAG: "Put your final answer between <answer> and </answer>.",
    AnswerForm.HASHES: "Write your final answer in the last line, after ####.",
    AnswerForm.PLAIN: "Write nothing but your final answer in the last line.",
}


log = logging.getLogger(__name__)


class Math(Env[Question]):
    name = "math"
    version = "1"
    single_turn = True
    limits = Limits(step_s=300.0)  # a busy machine takes long to start the verifier

    def __init__(
        self,
        path: str | None = None,
        answer_form: AnswerForm = AnswerForm.AUTO,
        instruction: str | None = None,
        system_prompt: str | None = None,
        needs_answers: bool = True,
    ) -> None:
        """`path` of a file below the env worker's data root, unless the run's config names a `dataset` for the
        environment; `{split}` in it stands for the split.

        `instruction` goes after the question. By default it asks for the answer's form, unless the
        file has prompts of whole messages; an empty text leaves it out. `system_prompt` goes before
        the question, and before the system message of the file if it has one. With `needs_answers`
        false, questions without a right answer are asked as well, and get no reward here: for runs whose `rewards` have
        other parts than `own`.
        """
        self.permissions = current()
        self.path = path
        self.answer_form = answer_form
        self.instruction = instruction
        self.preface = system_prompt
        self.needs_gold = needs_answers

    def tasks(self, split: str) -> Sequence[Question]:
        if self.path is None:
            raise ConfigError(
                "nothing says where the questions are: give `path` in config, or a `dataset` beside it"
            )
        path = Path(self._file(split))
        return read_questions(path, self.permissions, needs_gold=self.needs_gold)

    def task_of(self, row: Mapping[str, Any]) -> Question:
        if self.path is not None:
            raise ConfigError("config.path has no effect beside a dataset; leave one of them out")
        return question(row, 1, needs_gold=self.needs_gold)

    def _file(self, split: str) -> str:
        """As people know it."""
        return "the data set" if self.path is None else self.path.replace("{split}", split)

    def id_of(self, task: Question) -> str | None:
        return task.id

    async def reset(self, task: Question, ctx: Context) -> Sequence[ChatMessage]:
        self.question, self.file = task, self._file(ctx.split)
        self.category, self.data_source = task.category, task.data_source
        self.gold_answer = task.gold
        *before, last = [message for message in task.prompt if message.role != "system"]
        return [*before, ChatMessage(role="user", content=self._instructed(last.content))]

    def system_prompt(self) -> str | None:
        """Ours and the file's, in one message: not every model takes two."""
        given = [message.content for message in self.question.prompt if message.role == "system"]
        return "\n\n".join([self.preface, *given] if self.preface else given) or None

    async def step(self, action: str) -> StepResult:
        return await self.finish(action)

    async def finish(self, action: str) -> StepResult:
        """The end of the episode, with the answer in these words."""
        if self.question.gold is None:
            return StepResult(done=True)  # nothing to hold it against
        verdict = await self._verdict(action, self.question.gold)
        right = float(verdict is Verdict.EQUAL)
        return StepResult(reward=right, done=True, metrics=metrics_of(verdict))

    async def _verdict(self, action: str, gold: str) -> Verdict:
        try:
            return await verify(gold, action, self.answer_form)
        except GoldUnusable as error:
            reason = f"{self.file}{self._row()}: {error}"
            _tell_once(reason)
            raise TaskError(reason) from error

    def _row(self) -> str:
        """Of a data set, whoever tells of the task knows it."""
        return "" if self.path is None else f", row {self.question.row}"

    def _instructed(self, content: str) -> str:
        instruction = self.instruction
        if instruction is None:
            instruction = "" if self.question.is_chat else INSTRUCTIONS[self.answer_form]
        return f"{content}\n\n{instruction}" if instruction else content


def metrics_of(verdict: Verdict) -> dict[str, float]:
    return {
        "exact": float(verdict is Verdict.EQUAL),
        "answered": float(verdict is not Verdict.NO_ANSWER),
        "parseable": float(verdict not in (Verdict.NO_ANSWER, Verdict.UNPARSEABLE)),
        "refused": float(verdict is Verdict.REFUSED),
        "timed_out": float(verdict is Verdict.TIMED_OUT),
    }


@lru_cache(maxsize=4096)
def _tell_once(reason: str) -> None:
    log.warning("%s; its episodes fail, so correct this row or leave it out", reason)
