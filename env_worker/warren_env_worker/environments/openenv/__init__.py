"""Environments of any OpenEnv server, by the WebSocket sessions of its protocol.

environment  what the policy is shown, and what its words do
actions      how words become an action, by the schema of the server's actions
session      one episode's session: made anew if the connection broke
server       what is asked of a server, and what no answer means
socket       one connection, which hears pings while the policy thinks
answers      what a server answers, checked
"""
