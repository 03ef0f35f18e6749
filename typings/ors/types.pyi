from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

class TextBlock(BaseModel):
    text: str

class ImageBlock(BaseModel):
    data: str
    mimeType: str

class ToolOutput(BaseModel):
    blocks: Sequence[TextBlock | ImageBlock]
    reward: float | None = None
    finished: bool = False

class ToolSpec(BaseModel):
    name: str
    description: str
    input_schema: Mapping[str, Any] | None

class ListToolsOutput(BaseModel):
    tools: list[ToolSpec]
