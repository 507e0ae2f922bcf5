"""Code that the revisions without sessions share: requests that carry everything in `_meta`, headers that repeat the
body, results with a `resultType`, and calls in several rounds."""
