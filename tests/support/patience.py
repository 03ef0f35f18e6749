"""How long a test waits for what must come. Nothing else in a test is about time.

Longer than any loaded machine needs, and shorter than the time after which pytest ends a test: whoever
meets one of these hangs.
"""

PATIENCE_S = 300.0
STOP_S = 60.0
"""What was told to end has ended."""
