"""Rewards of the user's own: functions, services and code, added up with weights.

scored       what there is to be rewarded: an episode that has ended
settings     the parts of a reward, as they stand in an environment's config
code         a Python function that came with the config, run in a sandbox
function     a Python function by its import path
service      an HTTP endpoint, asked for many episodes at once
composition  the weighted sum, and what each part gave
"""
