"""A call of a tool in every format."""

from warren.tools import ToolFormat

HERMES, XML, CODE = ToolFormat.HERMES, ToolFormat.XML, ToolFormat.CODE
CALLS = {
    HERMES: '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>',
    XML: (
        "<tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n<parameter=b>3</parameter>\n"
        "</function>\n</tool_call>"
    ),
    CODE: "```python\nprint(2+3)\n```",
}
