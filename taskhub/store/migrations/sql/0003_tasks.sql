ALTER TABLE access_token ADD CONSTRAINT access_token_digest_is_sha256 CHECK ((octet_length(digest) = 32) IS TRUE);
ALTER TABLE task ADD CONSTRAINT task_error_is_jsonrpc CHECK (
    error IS NULL OR (jsonb_typeof(error::jsonb -> 'code') = 'number'
                      AND jsonb_typeof(error::jsonb -> 'message') = 'string') IS TRUE);

-- Django cascades in Python only. Purge is one DELETE, so the database must do it: what hangs on a
-- task goes with it, and a re-run forgets the task it came from.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT c.conname, c.conrelid::regclass AS child, c.confrelid::regclass AS parent, a.attname AS col
        FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'f' AND c.confrelid IN ('task'::regclass, 'question'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', f.child, f.conname);
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (%I) REFERENCES %s (id) ON DELETE %s'
                       ' DEFERRABLE INITIALLY DEFERRED', f.child, f.conname, f.col, f.parent,
                       CASE WHEN f.col = 'rerun_of_id' THEN 'SET NULL' ELSE 'CASCADE' END);
    END LOOP;
END $$;
CREATE INDEX task_rerun_of ON task (rerun_of_id) WHERE rerun_of_id IS NOT NULL;
