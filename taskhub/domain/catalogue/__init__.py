"""The servers behind the hub and what they offer: tools with their policy, prompts, resources.

A server is connected by a spec (`spec`), enabled or not, reachable or not (`breakers`). A worker lists the server and
stores changes (`sync`, `offers`). A tool that is no longer listed is kept as gone, with its name and its tasks. A
tool's policy (`writes`) says how it runs and whether people are asked first. `view` is the catalogue as a tenant's
clients see it, `reads` and `offer_reads` are for pages.

Not here: connections and calls (`taskhub.upstream`).
"""
