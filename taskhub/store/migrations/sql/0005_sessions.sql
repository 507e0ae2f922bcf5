-- Django cascades in Python only; a purge is one DELETE.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT c.conname, c.conrelid::regclass AS child, c.confrelid::regclass AS parent, a.attname AS col, a.attnotnull
        FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'f' AND (c.conrelid IN ('stream'::regclass, 'outbound'::regclass)
                                   OR c.confrelid = 'session'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', f.child, f.conname);
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (%I) REFERENCES %s (id) ON DELETE %s'
                       ' DEFERRABLE INITIALLY DEFERRED', f.child, f.conname, f.col, f.parent,
                       CASE WHEN f.col IN ('stream_id', 'session_id') AND NOT f.attnotnull THEN 'SET NULL'
                            ELSE 'CASCADE' END);
    END LOOP;
END $$;
