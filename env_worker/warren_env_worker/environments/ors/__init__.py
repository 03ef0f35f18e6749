"""Environments of any server that speaks the Open Reward Standard (ORS).

environment  what the policy is shown, and what its words do
session      one episode's session: called, kept awake, made anew if the server lost it
server       requests: who may be asked, for how long, and what no answer means
redirects    the name that a server has for an environment that was asked for without one
answers      what a server answers, checked
conversation what stands before the policy's first words
tasks        which tasks of a split a config plays
"""
