"""Tiny pure helpers that know no word of our domain."""
