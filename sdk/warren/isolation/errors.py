"""What is raised where this machine lacks what isolation needs."""


class CannotIsolate(Exception):
    """Says what is missing, and what to do."""
