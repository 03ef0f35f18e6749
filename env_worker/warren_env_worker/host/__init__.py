"""Where user code runs: child processes that may hang or die, and a host that survives them.

protocol, cell            what the two sides say, and the memory they share
child, loops, stage,      the child: user code, called and held against its contract
  live, caller, contract, config, catalogue, order, importing, refusal, answers
forked                    processes for episodes, between the child and user code
host, process, opening,   the supervisor: deadlines, deaths, and who is to blame
  session, backlog, request
"""
