"""Settings from the environment, the URLs of all packages, and the ASGI application of a web process."""
