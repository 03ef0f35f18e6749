"""Isolation of programs, for boxes of agents and for sandboxes of code that a model wrote.

errors     why there are none
users      a user that nobody else has
syscalls   a filter of system calls
archives   files without a name, and modules in one of them

Nothing of this imports more than the standard library.
"""
