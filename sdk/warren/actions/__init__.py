"""Typed actions: the policy's words, read as a value of a type before an environment sees them.

    class Move(BaseModel):
        row: int
        column: int

    class Board(ActionEnv[Move]):
        def reset(self, task: None, ctx: Context) -> str:
            return "Your move."

        def act(self, action: Move) -> StepResult:
            return StepResult(reward=float(action.row == action.column), done=True)

reader       from words to a value, or to a sentence that says what is wrong with them
environment  the base class
awaitables   values that may have to be awaited
"""

from warren.actions.environment import ActionEnv

__all__ = ["ActionEnv"]
