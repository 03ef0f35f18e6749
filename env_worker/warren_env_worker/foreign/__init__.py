"""Environments of foreign packages, each in a virtual environment and in processes of its own.

virtual_environments  where they are installed
install               `warren env install NAME`
package               the fork server of one package: started when it is wanted, and again after its death
channel               hands connections to a fork server
package_process       one episode's process, asked in JSON lines
episode               an episode that is played step by step, and again where its process was lost
variables             environment variables of an episode's process, with secrets
whole_episode         one that is played at one request, and calls the model meanwhile
box                   boxes in the place of containers
programs              what runs there: without a line of Warren's, and nothing but Python and the package itself
"""
