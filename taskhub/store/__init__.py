"""The database: models and their migration, guards and triggers, functions (`functions`), statements (`statements`).

The rules about the tables, and the SQL that reads and changes them, are in the subjects of `domain`.
"""
