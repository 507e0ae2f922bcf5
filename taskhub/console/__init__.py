"""TaskHub in the browser: pages, forms and partials.

A view parses the request, calls a use case of `control` or reads from `domain`, and renders. Its decorator
(`access.page`) names the permission that it needs. Texts and markup are in `templates/`.
"""
