"""What environments print: kept apart from the worker's log, tagged, bounded.

lines   from bytes to whole lines that say where they come from
log     the file, of bounded size
pump    from a child's pipe to the file, in threads of its own
stack   where a call that does not return waits
"""
