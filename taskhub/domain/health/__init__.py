"""Health of this hub: `checks` for probes and metrics, `doctor` for the list that people read."""
