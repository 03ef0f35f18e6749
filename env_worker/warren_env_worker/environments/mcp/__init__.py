"""Tools of MCP servers, by the official client in a process for each episode.

environment  what the policy is shown, and what its words do
tools        which tools there are, by the names that the policy is told
servers      the servers in a config, and what they may reach
answers      what a server answers, checked, and as messages
"""
