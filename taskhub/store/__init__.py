"""The database: models and their migration, guards and triggers, functions (`functions`), statements (`statements`).

It knows tables and no subject's words. What the tables mean, and the SQL that changes them, is in `domain`.
"""
