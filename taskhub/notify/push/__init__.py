"""Web push: messages to browsers through the push services of their makers (RFC 8030, 8188, 8291 and 8292)."""
