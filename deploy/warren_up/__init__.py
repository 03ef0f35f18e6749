"""The composition root: all programs of Warren in one process, on the in-process broker.

Only this package imports more than one program; no program imports it.
"""
