-- What Django has no words for.

ALTER TABLE access_token ADD CONSTRAINT access_token_digest_is_sha256 CHECK ((octet_length(digest) = 32) IS TRUE);
ALTER TABLE task ADD CONSTRAINT task_error_is_jsonrpc CHECK (
    error IS NULL OR (jsonb_typeof(error::jsonb -> 'code') = 'number'
                      AND jsonb_typeof(error::jsonb -> 'message') = 'string') IS TRUE);
ALTER TABLE rule_version ADD CONSTRAINT rule_version_rules_bounded
    CHECK ((json_typeof(rules) = 'array' AND octet_length(rules::text) <= 1048576) IS TRUE);
ALTER TABLE permit ADD CONSTRAINT permit_digests_are_sha256
    CHECK ((octet_length(arguments_digest) = 32 AND octet_length(tool_digest) = 32) IS TRUE);

-- The tables of django-oauth-toolkit hold no token, code or secret in the clear, whatever its settings say.
ALTER TABLE oauth2_provider_accesstoken ADD CONSTRAINT oauth_access_token_hashed CHECK (token = '');
ALTER TABLE oauth2_provider_refreshtoken ADD CONSTRAINT oauth_refresh_token_hashed CHECK (token = '');
ALTER TABLE oauth2_provider_grant ADD CONSTRAINT oauth_code_hashed CHECK (code ~ '^[0-9a-f]{64}$');
ALTER TABLE oauth2_provider_application ADD CONSTRAINT oauth_secret_hashed
    CHECK (client_secret LIKE 'random\_sha256$%');

-- Django cascades in Python only, but a purge is one DELETE. So foreign keys cascade here: a row that belongs to a
-- task, a question or a session is deleted with it, and a row that only refers to one keeps a null in its place.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT c.conname, c.conrelid::regclass AS child, c.confrelid::regclass AS parent, a.attname AS col, a.attnotnull,
               b.attname AS of_parent
        FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = c.confkey[1]
        WHERE c.contype = 'f' AND (c.confrelid IN ('task'::regclass, 'question'::regclass, 'session'::regclass)
                                   OR c.conrelid IN ('stream'::regclass, 'outbound'::regclass, 'webhook'::regclass,
                                                     'notice'::regclass, 'delivery'::regclass,
                                                     'slack_message'::regclass, 'slack_card'::regclass))
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', f.child, f.conname);
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (%I) REFERENCES %s (%I) ON DELETE'
                       ' %s DEFERRABLE INITIALLY DEFERRED', f.child, f.conname, f.col, f.parent, f.of_parent,
                       CASE WHEN f.col IN ('rerun_of_id', 'stream_id', 'session_id') AND NOT f.attnotnull THEN 'SET NULL'
                            ELSE 'CASCADE' END);
    END LOOP;
END $$;
ALTER TABLE result_read ADD CONSTRAINT result_read_task FOREIGN KEY (task_id) REFERENCES task (id)
    ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX task_rerun_of ON task (rerun_of_id) WHERE rerun_of_id IS NOT NULL;

-- Tables whose rows live for seconds or as long as a stream, or may be lost in a crash.
ALTER TABLE relay SET UNLOGGED;
ALTER TABLE server_line SET UNLOGGED;
ALTER TABLE interest SET UNLOGGED;
ALTER TABLE timing SET UNLOGGED;

-- The audit log in parts, by id. An old part is written to a file and dropped, because a DELETE of millions of rows
-- would take too long. Further parts are made as they are needed (event_part_turn).
CREATE TABLE event (
    id bigint NOT NULL,
    tenant_id bigint,
    task_id bigint,
    task_version integer,
    action varchar(64) NOT NULL,
    actor varchar(255) NOT NULL,
    door varchar(8) NOT NULL,
    address varchar(64) NOT NULL DEFAULT '',
    context_id bigint,
    user_id bigint,
    target varchar(255) NOT NULL DEFAULT '',
    reason varchar(1024) NOT NULL DEFAULT '',
    before jsonb,
    after jsonb,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xid bigint NOT NULL DEFAULT ((pg_current_xact_id())::text)::bigint
) PARTITION BY RANGE (id);
CREATE SEQUENCE event_id_seq OWNED BY event.id;
ALTER TABLE event ALTER id SET DEFAULT nextval('event_id_seq');
ALTER TABLE event ADD CONSTRAINT event_pkey PRIMARY KEY (id);
CREATE INDEX event_by_task ON event (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX event_by_transaction ON event (xid, id);
CREATE INDEX event_newest ON event (tenant_id, id DESC);
CREATE INDEX event_newest_by_action ON event (tenant_id, action, id DESC);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM (MINVALUE) TO (100000000);

-- What store/functions.py has loaded.
CREATE TABLE schema_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    works_with integer NOT NULL,
    functions text NOT NULL,
    triggers text NOT NULL,
    live text NOT NULL,
    loaded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO schema_state (version, works_with, functions, triggers, live) VALUES (0, 0, '', '', '');
