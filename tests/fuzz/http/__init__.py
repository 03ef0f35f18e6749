"""HTTP requests made from the gateway's OpenAPI document by schemathesis, to a deployment that runs.

schemathesis lives in an environment of its own (`fuzz.txt`, `.venv-fuzz`): nothing here but `hooks.py`,
which only it imports, needs it.
"""
