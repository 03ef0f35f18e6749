"""TensorBoard files of runs, as the gateway and the SDK write them; only `files` needs tensorboard."""
