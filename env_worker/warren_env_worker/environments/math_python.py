r"""Answer a mathematical question with the help of Python: several turns, run in a sandbox.

A turn that calls the tool `python` has its code run and is shown what came of it; a turn without a
call is the answer, and ends the episode like one of `math`. Variables are kept from call to call
where the sandbox's tier allows it. When all calls are used up, the next turn is the answer.

Nothing that comes out of the sandbox decides the reward: it is shown to the policy, whose words are
held against the right answer by the verifier. A sandbox that fails fails the episode.
"""

from collections.abc import Sequence
from dataclasses import replace

from warren.environment import ChatMessage, ConfigError, Context, Limits, StepResult
from warren.host_services.cells import CellResult, CellStatus
from warren.host_services.settings import SandboxSettings
from warren.host_services.verdict import AnswerForm
from warren_env_worker.background_loop import background_loop
from warren_env_worker.environments.math import Math
from warren_env_worker.environments.questions import Question
from warren_env_worker.sandbox.port import Sandbox
from warren_env_worker.sandbox.shared import sandboxes_of
from warren_schemas.chat.tool_formats import NotACall, Tool, parse_calls, tools_prompt
from warren_schemas.config import ToolFormat

NOTES = {
    CellStatus.OK: "",
    CellStatus.ERROR: "",
    CellStatus.TIMEOUT: "[stopped: it ran longer than {cell_s:g} s]",
    CellStatus.MEMORY: "[stopped: it used more than {memory_mib} MiB of memory]",
    CellStatus.PROCESSES: "[stopped: it started more than {processes} processes]",
    CellStatus.FILES: "[stopped: it made more than {files} files; all files were deleted]",
    CellStatus.OUTPUT: "[stopped: it printed too much]",
    CellStatus.DIED: "[the process crashed]",
    CellStatus.LOST: "[the interpreter was lost, and all variables with it; the next call starts afresh]",
}
KEPT = " Variables from before this call are kept."
_STOPPED = set(CellStatus) - {CellStatus.OK, CellStatus.ERROR, CellStatus.LOST}

_TOOL = Tool(
    "python",
    "Run Python code and see what it prints.",
    {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)
_KEEPS = "Variables are kept from call to call."
_FORGETS = "Each call starts afresh, without the variables of earlier ones."


class MathPython(Math):
    name = "math_python"
    version = "1"
    single_turn = False
    limits = Limits(step_s=600.0)  # a cell and its turn, or the verifier

    def __init__(
        self,
        path: str | None = None,
        answer_form: AnswerForm = AnswerForm.AUTO,
        instruction: str | None = None,
        system_prompt: str | None = None,
        needs_answers: bool = True,
        tool_format: ToolFormat = ToolFormat.HERMES,
        max_calls: int = 8,
        sandbox: SandboxSettings | None = None,
    ) -> None:
        """As in `math`; besides, how calls are written (unless the run says it), how many there may be, and
        the sandbox.
        """
        super().__init__(path, answer_form, instruction, system_prompt, needs_answers)
        if max_calls < 1:
            raise ConfigError(f"max_calls must be at least 1, not {max_calls}")
        self.form = tool_format
        self.n_calls_left = max_calls
        self.sandboxes = sandboxes_of(sandbox or SandboxSettings(), self.permissions)
        self.settings = self.sandboxes.settings
        self.sandbox: Sandbox | None = None
        self.is_closed = False
        self.counts = {"calls": 0.0, "misformed_calls": 0.0, "failed_calls": 0.0}

    @classmethod
    def offered(cls) -> list[Tool]:
        return [_TOOL]

    async def reset(self, task: Question, ctx: Context) -> Sequence[ChatMessage]:
        self.form = ToolFormat(ctx.tool_format or self.form)
        return await super().reset(task, ctx)

    def system_prompt(self) -> str:
        keeps = _FORGETS if self.settings.tier == "http" else _KEEPS
        given = super().system_prompt()
        explained = f"{tools_prompt([_TOOL], self.form)}\n\n{keeps}"
        return f"{given}\n\n{explained}" if given else explained

    async def step(self, action: str) -> StepResult:
        code = _code_in(action, self.form)
        if code is None or self.n_calls_left == 0:
            result = await self.finish(action)
            return replace(result, metrics={**result.metrics, **self.counts})
        self.n_calls_left -= 1
        if isinstance(code, NotACall):
            self.counts["misformed_calls"] += 1
        told = self._told(code.reason if isinstance(code, NotACall) else await self._output(code))
        return StepResult([told], metrics=self.counts)

    async def close(self) -> None:
        """Also in the middle of a step, if nobody needs the episode any more."""
        self.is_closed = True
        if self.sandbox is not None:
            await background_loop().call(self.sandbox.close())

    async def _output(self, code: str) -> str:
        sandboxes = self.sandboxes
        try:
            if self.sandbox is None:
                self.sandbox = await background_loop().call(sandboxes.open())
            result = await background_loop().call(sandboxes.run(self.sandbox, code))
        finally:
            if self.is_closed:  # a cell whose turn came later has started the session anew
                await self.close()
        self.counts["calls"] += 1
        self.counts["failed_calls"] += result.status is not CellStatus.OK
        return self._in_words(result, keeps_state=self.sandbox.keeps_state)

    def _in_words(self, result: CellResult, *, keeps_state: bool) -> str:
        note = NOTES[result.status].format(**self.settings.limits.model_dump())
        if keeps_state and result.status in _STOPPED:
            note += KEPT
        printed = result.output.rstrip("\n")
        return "\n".join(part for part in (printed, note) if part) or "[it printed nothing]"

    def _told(self, text: str) -> ChatMessage:
        if self.n_calls_left == 0:
            text += "\n[this was the last call; give your answer now]"
        if self.form is ToolFormat.CODE:
            return ChatMessage(role="user", content=f"```output\n{text}\n```")
        return ChatMessage(role="tool", content=text)


def _code_in(words: str, form: ToolFormat) -> str | NotACall | None:
    """The code of the first call; None for words without one. A fence of another language is none."""
    calls = parse_calls(words, form)
    if isinstance(calls, NotACall):
        return calls
    call = next((c for c in calls if form is not ToolFormat.CODE or c.name == _TOOL.name), None)
    if call is None:
        return None
    if call.name != _TOOL.name:
        return NotACall(f"there is no tool {call.name!r}; the only one is {_TOOL.name}")
    code = call.arguments.get("code") if call.text is None else call.text
    return code if isinstance(code, str) else NotACall("python needs the argument code, a text")
