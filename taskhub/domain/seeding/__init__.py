"""A made-up history for a demo: tasks, answers and events of a month, as if they had happened."""
