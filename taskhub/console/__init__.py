"""TaskHub in the browser: pages, forms and partials.

A view parses the request, calls a use case of `control` or reads from `domain`, and renders. Who may see a page stands
beside its view (`access`), how things are worded and drawn in `templates/`.
"""
