"""Small general helpers, which know nothing of tasks, clients or servers."""
