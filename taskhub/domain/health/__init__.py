"""Whether this hub is well: probes for machines (`checks`), and the doctor's list for people."""
