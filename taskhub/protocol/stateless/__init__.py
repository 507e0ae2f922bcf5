"""What the revisions without sessions share: a request that says everything, the headers that repeat it,
results that say what they are, and a call that may take several rounds."""
