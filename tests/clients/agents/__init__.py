"""Agent frameworks that others wrote, unmodified from their registries: what each does with calls that take long."""
