"""Configs of OpenReward's training example, as configs of ours.

keys          what such a file may hold
translation   what becomes of each key; what has no counterpart is told or refused
"""
