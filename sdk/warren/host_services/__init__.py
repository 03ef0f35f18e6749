"""What an env worker offers to an episode: sandboxes for code that a policy wrote, and the verifier of answers.

    class Coder(Env):
        def step(self, action: str) -> StepResult:
            result = self.context.python(action).wait()          # in an `async` method: await self.context.python(action)
            return StepResult(result.output)

reply     what is asked for, for methods that block and for `async` ones
cells     what comes of a piece of code
settings  which kind of sandbox, and its limits
verdict   what comes of a comparison of answers
protocol  what an episode may ask for; env workers implement it

All of it lives outside of the episode's process and ends with the episode, however that ends.
"""

from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.protocol import HostServices, SandboxSession
from warren.host_services.reply import Reply
from warren.host_services.settings import SandboxLimits, SandboxSettings
from warren.host_services.verdict import AnswerForm, Verdict, VerificationFailed

__all__ = [
    "AnswerForm",
    "CellResult",
    "CellStatus",
    "HostServices",
    "Reply",
    "SandboxFailed",
    "SandboxLimits",
    "SandboxSession",
    "SandboxSettings",
    "Verdict",
    "VerificationFailed",
]
