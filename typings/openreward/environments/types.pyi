from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from ors.types import ImageBlock as ImageBlock
from ors.types import ListToolsOutput as ListToolsOutput
from ors.types import TextBlock as TextBlock
from ors.types import ToolOutput as ToolOutput
from ors.types import ToolSpec as ToolSpec

class ReasoningBlock:
    def __init__(self, *, text: str) -> None: ...

class ToolCallBlock:
    def __init__(self, *, id: str, name: str, input: dict[str, Any]) -> None: ...

class ToolResultBlock:
    def __init__(self, *, tool_call_id: str, blocks: Sequence[TextBlock | ImageBlock]) -> None: ...

MessageBlock: TypeAlias = TextBlock | ImageBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock

class Message:
    def __init__(
        self, *, role: Literal["system", "user", "assistant"], blocks: Sequence[MessageBlock]
    ) -> None: ...

class GroupCandidate:
    messages: list[Message]
