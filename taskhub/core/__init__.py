"""Code that several subjects share: states, records, errors, hints, permissions and words. Plain Python, no Django."""
