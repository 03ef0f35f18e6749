"""The supervisor's half: leases of models, ops in order, the child process kept alive."""
