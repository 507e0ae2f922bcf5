"""Messages to people by Apprise."""
