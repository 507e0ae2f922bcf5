"""Clients that behave as published programs do that cannot be installed here: from their sources and documentation."""
