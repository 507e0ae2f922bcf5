"""What templates may use: filters and tags (`console`), and the parts of pages (`parts`)."""
