"""Slack: messages with buttons, posted by its API, and clicks on them, which come over a WebSocket (Socket Mode)."""
