"""Where code runs that a model wrote: no network, no files but its own, limits on everything else.

port         what every sandbox can do; what comes of a cell and the settings are in `warren.host_services`
opening      choosing a tier: probed, named, and never a bare process
process      the host's end of a session in a process (tiers bubblewrap and landlock)
bubblewrap   isolation by namespaces; `landlock`: isolation without them; their filter is in `warren.isolation`
containers   isolation by Podman or Docker, for an image that the config names
kubernetes   the same in a pod
spares       started sandboxes that wait for whoever opens one next
inside       what runs inside
interpreter  a Python in Rust that knows neither files nor network (pydantic-monty)
remote       any service that speaks SandboxFusion's `/run_code`; `server`: such a service

Nothing that comes out of a sandbox decides a reward: it is text for the model. Answers are compared
by the host.
"""
