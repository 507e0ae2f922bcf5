"""The console's template libraries: filters and tags (`console`), and parts, which are reusable components
(`parts`)."""
