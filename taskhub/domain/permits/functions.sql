-- Permits: issued, and redeemed once.

-- Issues a permit and records that; returns when it expires. `p_task` is the task in which people approved the call;
-- null if a rule allowed it.
CREATE OR REPLACE FUNCTION th_issue_permit(p_id text, p_tenant bigint, p_context bigint, p_tool bigint,
                                           p_arguments bytea, p_definition bytea, p_rules int, p_seconds int,
                                           p_task bigint)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    INSERT INTO permit (public_id, tenant_id, context_id, tool_id, arguments_digest, tool_digest, rules_version, asked,
                        issued_at, expires_at)
    VALUES (p_id, p_tenant, p_context, p_tool, p_arguments, p_definition, p_rules, p_task IS NOT NULL,
            moment, moment + make_interval(secs => p_seconds));
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, after)
    SELECT p_tenant, p_task, 'permit.issued', coalesce(th_who('name'), session_user), coalesce(th_who('door'), 'sql'),
           coalesce(th_who('address'), ''), p_context, th_who('user_id')::bigint, o.exposed_name,
           jsonb_build_object('permit', p_id, 'server', s.name, 'version', p_rules, 'seconds', p_seconds)
           || th_digests(p_arguments, p_definition)
    FROM tool o JOIN server s ON s.id = o.server_id WHERE o.id = p_tool;
    RETURN moment + make_interval(secs => p_seconds);
END $$;

-- Issues a permit for a call that a rule allowed, or that a bypass let pass. `p_passed`: the verdict as a task stores
-- it, if a bypass let the call pass; otherwise null.
CREATE OR REPLACE FUNCTION issue_permit(p_id text, p_tenant bigint, p_context bigint, p_tool bigint, p_arguments text,
                                        p_definition text, p_rules int, p_seconds int, p_passed jsonb, p_who text)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    expires timestamptz;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    expires := th_issue_permit(p_id, p_tenant, p_context, p_tool, decode(p_arguments, 'hex'),
                               decode(p_definition, 'hex'), p_rules, p_seconds, NULL);
    PERFORM th_permit_bypassed(p_id, p_passed);
    RETURN expires;
END $$;

-- Records that a bypass let the call of a permit pass, if one did.
CREATE OR REPLACE FUNCTION th_permit_bypassed(p_id text, p_passed jsonb) RETURNS void LANGUAGE sql AS $$
    SELECT th_bypassed(p.tenant_id, NULL, p.context_id, o.exposed_name, p_passed -> 'bypass', p_passed ->> 'rule', p_id)
    FROM permit p JOIN tool o ON o.id = p.tool_id WHERE p.public_id = p_id AND p_passed ? 'bypass'
$$;

-- Ends a task that is only decided, after people have approved its call: with a permit, or with an error if the call
-- could not run any more (th_unfit), such as when the tool has changed since people were asked. The caller holds the
-- lock of the task.
CREATE OR REPLACE FUNCTION th_permit(p_task bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    asked record;
    unfit record;
    why text;
BEGIN
    SELECT u.reason, u.why INTO unfit FROM th_unfit(ARRAY[p_task]) u;
    IF FOUND THEN
        why := left(th_words('not_permitted', unfit.why), 1024);
        UPDATE task SET state = 'faulted', message = why, error = th_error(why, unfit.reason),
               ended_at = clock_timestamp() WHERE id = p_task;
        RETURN;
    END IF;
    SELECT t.public_id, t.tenant_id, t.context_id, t.tool_id, t.arguments_digest, q.definition_digest,
           q.params -> 'permit' AS wanted INTO STRICT asked
    FROM task t JOIN question q ON q.task_id = t.id AND q.kind = 'approval' AND q.state = 'answered'
    WHERE t.id = p_task;
    PERFORM th_issue_permit(asked.public_id, asked.tenant_id, asked.context_id, asked.tool_id, asked.arguments_digest,
                            asked.definition_digest, (asked.wanted ->> 'version')::int,
                            (asked.wanted ->> 'seconds')::int, p_task);
    UPDATE task SET state = 'finished', message = '', ended_at = clock_timestamp(),
           result = json_build_object('content', json_build_array(
               json_build_object('type', 'text', 'text', th_words('permitted'))))::text
    WHERE id = p_task;
END $$;

-- Redeems a permit. Returns 'redeemed', or why not: 'unknown' (this client has no such permit), 'other_arguments',
-- 'used', 'expired', 'withdrawn' (the tool or its server is off), 'tool_changed'. If people approved the call, it is
-- also checked like a call that a worker takes (th_unfit); then there are the outcomes 'call_changed' (such as the
-- server's address) and 'approver_left'. The row is locked: of two attempts at the same moment, the second waits for
-- the first. `p_passed` as in issue_permit.
CREATE OR REPLACE FUNCTION redeem_permit(p_id text, p_context bigint, p_arguments text, p_passed jsonb, p_who text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held record;
    unfit text;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT p.id, p.tenant_id, p.tool_id, p.arguments_digest, p.tool_digest, p.redeemed_at, p.expires_at INTO held
    FROM permit p WHERE p.public_id = p_id AND p.context_id = p_context FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF held.arguments_digest <> decode(p_arguments, 'hex') THEN
        RETURN 'other_arguments';
    END IF;
    IF held.redeemed_at IS NOT NULL THEN
        RETURN 'used';
    END IF;
    IF held.expires_at <= clock_timestamp() THEN
        RETURN 'expired';
    END IF;
    IF NOT EXISTS (SELECT FROM tool o JOIN server s ON s.id = o.server_id
                   WHERE o.id = held.tool_id AND o.enabled AND o.gone_at IS NULL AND o.rejected = ''
                     AND s.enabled AND s.removed_at IS NULL) THEN
        RETURN 'withdrawn';
    END IF;
    IF (SELECT decode(o.digest, 'hex') FROM tool o WHERE o.id = held.tool_id) <> held.tool_digest THEN
        RETURN 'tool_changed';
    END IF;
    SELECT u.reason INTO unfit FROM task t CROSS JOIN LATERAL th_unfit(ARRAY[t.id]) u WHERE t.public_id = p_id;
    IF FOUND THEN
        RETURN CASE unfit WHEN 'approved_call_changed' THEN 'call_changed' WHEN 'approver_left' THEN unfit
                          ELSE 'withdrawn' END;
    END IF;
    UPDATE permit SET redeemed_at = clock_timestamp() WHERE id = held.id;
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, target, after)
    SELECT held.tenant_id, (SELECT t.id FROM task t WHERE t.public_id = p_id), 'permit.redeemed', coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), p_context, o.exposed_name,
           jsonb_build_object('permit', p_id) || th_digests(held.arguments_digest, held.tool_digest)
    FROM tool o WHERE o.id = held.tool_id;
    PERFORM th_permit_bypassed(p_id, p_passed);
    RETURN 'redeemed';
EXCEPTION WHEN SQLSTATE 'TH012' THEN
    RETURN 'expired';  -- between the check above and the guard
END $$;
