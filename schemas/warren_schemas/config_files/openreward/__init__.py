"""Configs of OpenReward's training example, as configs of ours.

keys          what such a file may hold
domains       where OpenReward's server lets secrets go
translation   what becomes of each key; what has no counterpart is told or refused
"""
