"""How long a test waits for what must come. Nothing else in a test is about time.

Longer than any loaded machine needs, and shorter than the time after which pytest ends a test: whoever
meets one of these hangs. `tests/unit/test_suite.py` holds that no test has a patience of its own.
"""

import pytest

PATIENCE_S = 300.0
STOP_S = 60.0
"""What was told to end has ended."""
QUIET_S = 0.3
"""How long we look for what must not happen: what comes later is missed, and nothing fails by mistake."""

several_waits = pytest.mark.timeout(900)
"""For a test that waits for one such thing after the other."""

whole_deployment = pytest.mark.timeout(2400)
"""For one that lets a whole deployment work for many minutes."""
