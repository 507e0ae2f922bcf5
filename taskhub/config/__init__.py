"""Settings from the environment, the URLs of all rooms, and the ASGI application that puts a web process together."""
