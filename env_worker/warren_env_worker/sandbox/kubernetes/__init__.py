"""Isolation by a pod of Kubernetes, for an image that the operator allows.

pod      what a pod may be and do: its spec
cluster  what is asked of the API server, by `kubectl`
status   what the API server says of a pod, as far as a sandbox needs it
session  a pod and the session in it: started, asked, cleared away
"""
