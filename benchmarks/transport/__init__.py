"""Env-step round trips per second: the brokers against one HTTP request per step.

A step is what a sampler and an env worker exchange: `Step` there, `Generate` back, with the real
envelope, codec, batch publisher and inbox, confirms and acknowledgements. `python -m benchmarks.transport`
runs everything on this machine and prints one table.
"""
