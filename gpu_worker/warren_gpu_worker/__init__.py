"""The GPU worker: samplers and trainers, each engine in a child process under a free event loop."""
