"""How a policy writes the calls of tools."""

from enum import StrEnum


class ToolFormat(StrEnum):
    HERMES = "hermes"
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen2.5, Qwen3."""
    XML = "xml"
    """`<tool_call><function=NAME><parameter=KEY>…</parameter></function></tool_call>`."""
    CODE = "code"
    """A fenced block: its language names the tool, its text is the tool's one argument."""
