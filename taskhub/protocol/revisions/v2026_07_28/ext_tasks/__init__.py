"""The tasks extension of 2026-07-28: the handle, `tasks/get`, `tasks/update`, `tasks/cancel`."""
