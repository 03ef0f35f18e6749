"""Exit codes of `warren`, for scripts."""

OK = 0
FAILED = 1
"""A run failed or was cancelled, a check found something, or warren itself is broken."""
USAGE = 2
"""The command line, a config or an argument is wrong."""
UNREACHABLE = 3
"""The gateway does not answer, or not to this API key."""
NOTHING_LEARNED = 4
"""A run took all its steps, and none learned from rewards: all groups had zero variance."""
INTERRUPTED = 130
"""Ctrl-C."""
