"""What environments print: kept apart from the worker's log, tagged, bounded.

lines   from bytes to whole lines that say where they come from
log     the file, of bounded size
pump    from a child's pipe to who keeps it, in threads of its own
kept    what a child prints, in the file
episode what one episode's process prints, on its way to its parent's output
stack   where a call that does not return waits
"""
