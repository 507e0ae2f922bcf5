"""TaskHub in the browser: pages, forms and partials.

A view parses the request, calls a use case of `control` or reads from `domain`, and renders. The permission that a page
needs stands at its view (`access`), words and looks stand in `templates/`.
"""
