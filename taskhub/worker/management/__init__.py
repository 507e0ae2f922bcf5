"""The package in which Django looks for management commands."""
