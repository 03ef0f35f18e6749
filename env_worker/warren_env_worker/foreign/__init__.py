"""Environments of foreign packages, each in a virtual environment and in processes of its own.

places         where they are installed
install        `warren env install NAME`
package        the fork server of one package: started when it is wanted, and again after its death
conversation   one episode's process, asked in JSON lines
programs       what runs there: without a line of Warren's, and nothing but Python and the package itself
"""
