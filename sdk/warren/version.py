"""The version of this installation, and how to install more of it.

Nothing is released to an index: whoever registered our name there would be installed by a hint that names it.
"""

from importlib.metadata import version

__version__ = version("warren-rl")
IN_CLONE = "in your clone of Warren"


def install_extra(extra: str) -> str:
    """The command that adds an extra, and where to type it."""
    return f"pip install '.[{extra}]' {IN_CLONE}"
