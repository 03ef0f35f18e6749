"""Rewards of the user's own: functions, services, code and judges, added up with weights.

scored       what there is to be rewarded: an episode that has ended
code         a Python function that came with the config, run in a sandbox
function     a Python function by its import path
service      an HTTP endpoint, asked for many episodes at once
judge        a language model behind an OpenAI-compatible endpoint; questions: what it is asked, and what it says
composition  the weighted sum, and what each part gave
"""
