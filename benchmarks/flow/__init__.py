"""The flow of episodes under load, with models that only wait.

Real gateways, GPU workers and env workers on a RabbitMQ and a PostgreSQL of their own (the site of
`tests/chaos`); sampler and trainer only sleep. `python -m benchmarks.flow WHAT` runs one of

- `staleness`: asynchronous against on-policy, with steps whose time has a long tail
- `workers`: steps per second of each env worker, the more of them there are
- `hop`: what a step costs, and whom
- `outages`: the wall time that a run loses when the broker, the store or a gateway goes
- `lag`: the reward that the demo's task reaches with a batch of lag and without (real models)
- `endurance`: many episodes, and the memory of each process

prints its table; the first two and the last write a chart beside this file.
"""
