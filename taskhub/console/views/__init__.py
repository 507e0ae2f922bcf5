"""A module for each page of the console, or for a few that belong together."""
