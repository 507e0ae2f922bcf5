-- Whether a megabyte can still be written. The form: taskhub/store/statements.py.

-- read fresh: little_memory() -> tuple[str, str]
-- For the rest of the transaction.
SELECT set_config('work_mem', '64kB', true), set_config('temp_tablespaces', '', true);

-- read fresh: spill() -> int
-- With so little memory it needs a temporary file beside the tables. It leaves nothing, neither rows nor log.
SELECT count(*)::int FROM generate_series(1, 40000);
