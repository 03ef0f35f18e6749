"""Steps of environments at foreign servers: by ours, and by the servers' own clients.

`python -m benchmarks.served` after `make .venv-ors/installed .venv-openenv/installed`. The real servers are those of
`tests/ecosystems`, one process each, and all sides ask the same one in turns. A side is one process with one event loop; its episodes
are all live at once, and each takes its next step as soon as the last one is answered. Ours are measured twice: called as an env
worker's process calls them, and by the host of an env worker, which has them in a process of their own.

The clients of foreign packages run in the Python of their own environments, and import of this package nothing but `loop`.
"""
