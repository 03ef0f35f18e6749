"""For authors of environments: a folder to begin with, and tests that play as an env worker does.

new        `warren env new`
test       `warren env test`
plugin     fixtures for pytest: `play` and `check`
playing    episodes in processes of their own, from a process without an event loop
template/  what a new folder holds; `$name` and `$class_name` are filled in
"""
