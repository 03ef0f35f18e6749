"""Tasks of NeMo Gym, judged by its resource servers.

environment  servers that judge at the end: what the policy is shown, and what its words do
stepping     servers that answer and reward every turn
rows         the rows of NeMo Gym's data sets
mcp_tools    tools that a server offers by MCP, for rows that name none
response     what the policy said, as the Responses object that `verify` reads
session      one episode's session: made anew if it was lost
connection   requests over the one connection that a session lives on
answers      what a server answers, checked
"""
