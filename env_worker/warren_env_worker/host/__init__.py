"""Where environments are played: in child processes that may hang or die, and by hosts that survive them.

host, process, session    the supervisor: deadlines, deaths, and who is to blame; startup, replacement, backlog, calls
protocol, call_status     what the two sides say, and the memory they share
environment_class         what is read off a class before anything of it is played
child, child_main         the child: user code, called and held against its contract
forked                    processes for episodes, between the child and user code
in_process                Warren's own clients of servers, which need no child
"""
