"""The sampler: the policy's turns, from `Generate` to `Step`, token in and token out."""
