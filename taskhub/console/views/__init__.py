"""The views of the console: a module for each page, or for a few pages that belong together."""
