"""The servers behind us and what they offer: tools with their policy, prompts, resources.

A server is connected by a spec (`spec`), enabled or not, reachable or not (`breakers`). A worker lists it and stores
what is new (`sync`, `offers`); a tool that is not listed any more is gone, and keeps its name and its tasks. A tool's
policy (`writes`) says how it runs and whether people are asked first. `view` is the catalogue that a tenant's clients
see, `reads` and `offer_reads` what pages show.

Not here: connections and calls (`taskhub.upstream`).
"""
