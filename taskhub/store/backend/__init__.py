"""Django's Postgres, whose connections have a deadline for each statement."""
