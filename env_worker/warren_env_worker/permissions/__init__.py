"""What a run's config may make this worker do: the one place that decides it.

A config names secrets, services, functions, files, programs and variables; whoever acts on one of them
asks here first. The supervisor knows the operator's policy and the run's owner, and hands each
episode its permissions (`granting`); the child that acts is held to it (`permissions`).

secrets    values of secrets, and texts without them
sealed     their values on the way to an episode's process, in memory that no other gets
reading    what such a process prints, read where no other finds it
granting   from the policy and an episode's owner to its permissions
permissions  what an episode may reach: asked by the code that acts
urls       which URLs a prefix covers
addresses  no private address, unless the operator allowed it
service    requests to a service: no redirects, fixed words for failures
patient_client  requests to a server that may be busy, away or started anew
files      files below a root, and no way out of it
policy_check  rules of a policy that would have no effect
variables  what processes that run environments inherit
"""
