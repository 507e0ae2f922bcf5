-- The questions that a task waits for, to people and clients, and their answers.

-- The digest of all that people approve: client, server and its address, tool and its definition, arguments, answers
-- that came along, and what was asked of whom. It is computed again when a worker takes the task (th_unfit), from what
-- the call would be then. Of the address, what is stored counts, which is encrypted if the address has secrets.
CREATE OR REPLACE FUNCTION th_call_digest(p_task bigint, p_params json, p_group text, p_quorum int) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(jsonb_build_array(
        t.tenant_id, t.context_id, t.public_id, t.arguments::text, t.answers, o.id, o.name, o.digest, s.id,
        s.transport, s.target, encode(s.sealed_target, 'hex'), s.directory, p_params::text, p_group, p_quorum)::text,
        'UTF8'))
    FROM task t JOIN tool o ON o.id = t.tool_id JOIN server s ON s.id = o.server_id WHERE t.id = p_task
$$;

-- The object with this member set to `value`. It is `json`, not `jsonb`, so that the other members keep their text.
CREATE OR REPLACE FUNCTION th_with(object json, member text, value json) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT json_object_agg(p.key, p.value) FROM (
        SELECT e.key, e.value FROM json_each(object) e WHERE e.key <> member UNION ALL SELECT member, value) AS p
$$;

-- The digest of what approvals have in common that people may decide together; null for an approval that has to be
-- decided by itself, such as that of a call with long arguments (`core.calls.BEGINNING`), since the table of
-- differences shows arguments whole.
CREATE OR REPLACE FUNCTION th_alike(called task, definition text, params json, "group" text, quorum int) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN params #> '{decided,rule}' IS NOT NULL
                     AND coalesce(params #>> '{decided,risk}', 'low') <> 'critical'
                     AND params #> '{decided,preview}' IS NULL AND params #> '{decided,second_factor}' IS NULL
                     AND params -> 'edited' IS NULL AND params -> 'changed' IS NULL
                     AND params -> 'asked_again' IS NULL AND params #> '{decided,again}' IS NULL
                     AND called.answers IS NULL AND length(called.arguments::text) <= 4000
           THEN sha256(convert_to(jsonb_build_array(
               called.context_id, called.tool_id, definition, "group", quorum, params -> 'permit' IS NULL,
               params #> '{decided,version}', params #> '{decided,rule}', params #> '{decided,doubt}')::text, 'UTF8')) END
$$;

-- Opens questions. For an approval it stores the present definition of the tool, which people are shown, and the digest
-- of all that they approve; the digests go into the event of the decision. It also stores what an approval has in
-- common with those that people may decide together with it (th_alike). If the rule of an approval has a preview, the
-- preview is due now.
-- If the rule reminds people, it stores when: not at all if the time of the approval ends before. For each question
-- there is an event, whose actor is whoever caused it to be asked.
CREATE OR REPLACE FUNCTION th_open_questions(p_task bigint, p_tenant bigint, p_questions json, p_live boolean)
RETURNS void LANGUAGE sql AS $$
    WITH opened AS (
    INSERT INTO question (task_id, tenant_id, key, upstream_key, kind, params, audience, "group", quorum, live, due_at,
                          remind_at, definition, definition_digest, called_at, call_digest, alike)
    SELECT p_task, p_tenant, q ->> 'key', coalesce(q ->> 'upstream_key', ''), q ->> 'kind', q -> 'params',
           q ->> 'audience', coalesce(q ->> 'group', ''), coalesce((q ->> 'quorum')::int, 1), p_live,
           n.now + make_interval(secs => n.due), CASE WHEN n.remind < n.due THEN n.now + make_interval(secs => n.remind) END,
           o.definition, decode(nullif(o.digest, ''), 'hex'), t.created_at,
           CASE WHEN t.id IS NOT NULL THEN th_call_digest(
               t.id, q -> 'params', coalesce(q ->> 'group', ''), coalesce((q ->> 'quorum')::int, 1)) END,
           CASE WHEN t.id IS NOT NULL THEN th_alike(
               t, o.digest, q -> 'params', coalesce(q ->> 'group', ''), coalesce((q ->> 'quorum')::int, 1)) END
    FROM json_array_elements(p_questions) q LEFT JOIN task t ON q ->> 'kind' = 'approval' AND t.id = p_task
        LEFT JOIN tool o ON o.id = t.tool_id
        CROSS JOIN LATERAL (SELECT clock_timestamp() AS now, coalesce(
            (q ->> 'due_seconds')::float8, (q #>> '{params,decided,expires_minutes}')::float8 * 60, 86400) AS due,
            CASE WHEN q ->> 'kind' = 'approval' THEN (q #>> '{params,decided,remind_minutes}')::float8 * 60 END
            AS remind) n
    RETURNING id, key, kind, params, audience, quorum, "group"
    ), recorded AS (
        INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, after)
        SELECT p_tenant, p_task, 'question.asked', coalesce(w ->> 'name', session_user), coalesce(w ->> 'door', 'sql'),
               coalesce(w ->> 'address', ''), t.context_id, (w ->> 'user_id')::bigint, t.tool_name,
               jsonb_strip_nulls(jsonb_build_object('key', n.key, 'kind', n.kind, 'audience', n.audience,
                                                    'quorum', n.quorum, 'group', nullif(n."group", '')))
        FROM opened n JOIN task t ON t.id = p_task
        CROSS JOIN LATERAL (SELECT coalesce(nullif(current_setting('th.who', true), ''), '{}')::jsonb) AS given (who)
        CROSS JOIN LATERAL (SELECT coalesce(who -> 'tasks' -> t.public_id, who)) AS actor (w)
        ORDER BY n.id
    ), due AS (
        INSERT INTO preview (question_id)
        SELECT n.id FROM opened n WHERE n.kind = 'approval' AND n.params #> '{decided,preview}' IS NOT NULL
        RETURNING question_id
    )
    SELECT pg_notify('taskhub', 'y') FROM due LIMIT 1
$$;

-- The digest of all that people saw when they decided: of the call (th_call_digest), and of its preview, if it had one.
CREATE OR REPLACE FUNCTION th_seen_digest(call bytea, preview bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN preview IS NULL THEN call ELSE sha256(call || preview) END
$$;

-- Opens questions, and returns whether the worker still held the task. Parked (p_live false): the lease ends and the
-- tool is called again with the answers. Live: the tool waits in the worker, which keeps its lease. `p_given` are
-- answers that came with the call and fit questions opened here: an array of {key, response, verdict}. They are stored
-- and recorded like any other decision of the client; if no question is left open, the task is runnable again.
CREATE OR REPLACE FUNCTION ask(p_id bigint, p_epoch int, p_questions json, p_upstream_state text, p_message text,
                       p_live boolean, p_given json, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    given record;
    why text;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT tenant_id, context_id, tool_id, cancel_requested_at INTO owner FROM task
    WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) AND ended_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM th_record_stale(p_id, p_epoch, 'ask');
        RETURN false;
    END IF;
    IF owner.cancel_requested_at IS NOT NULL AND NOT p_live THEN
        -- The run of the tool has ended with its questions. As the task is to be cancelled, there is no other run.
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_id AND state = 'open';
        UPDATE task SET state = 'cancelled', message = th_words('cancelled_running'), ended_at = clock_timestamp(),
               lease_until = NULL, upstream_state = NULL WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', '');
        RETURN true;
    END IF;
    IF NOT p_live AND EXISTS (SELECT FROM tool o JOIN server s ON s.id = o.server_id
                              WHERE o.id = owner.tool_id AND s.removed_at IS NOT NULL) THEN
        -- If its server has been removed meanwhile, the tool is not called again either, so nobody is asked in vain.
        why := th_words('not_continued', th_words('server_removed'));
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_id AND state = 'open';
        UPDATE task SET state = 'faulted', message = why, error = th_error(why, 'server_removed'),
               ended_at = clock_timestamp(), lease_until = NULL, upstream_state = NULL WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'faulted', why);
        RETURN true;
    END IF;
    PERFORM th_open_questions(p_id, owner.tenant_id, p_questions, p_live);
    UPDATE task SET state = 'input_required', message = left(p_message, 1024), version = version + 1,
           upstream_state = CASE WHEN p_live THEN upstream_state ELSE p_upstream_state END,
           lease_until = CASE WHEN p_live THEN lease_until END, worker = CASE WHEN p_live THEN worker ELSE '' END
    WHERE id = p_id;
    IF NOT p_live THEN
        PERFORM th_close_attempt(p_id, p_epoch, 'asked', '');
    END IF;
    FOR given IN SELECT g ->> 'key' AS key, g ->> 'response' AS response, g ->> 'verdict' AS verdict, c.name
                 FROM json_array_elements(coalesce(p_given, '[]')) g JOIN auth_context c ON c.id = owner.context_id
    LOOP
        PERFORM answer(p_id, given.key, given.response, given.verdict, th_words('came_along'), NULL,
            owner.context_id, NULL,
            json_build_object('name', given.name, 'door', 'client', 'context_id', owner.context_id)::text, 0);
    END LOOP;
    RETURN true;
END $$;

-- Closes a live question without an answer, because the tool wants none any more and goes on. Does nothing if the
-- question was closed before, or the worker has lost the task.
CREATE OR REPLACE FUNCTION drop_question(p_id bigint, p_epoch int, p_key text, p_who text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    PERFORM 1 FROM task WHERE id = p_id AND lease_epoch = p_epoch AND th_held(lease_until) AND ended_at IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
    WHERE task_id = p_id AND key = p_key AND live AND state = 'open';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE task SET state = 'working', message = ''
    WHERE id = p_id AND NOT EXISTS (SELECT FROM question WHERE task_id = p_id AND state = 'open');
    RETURN true;
END $$;

-- Whether nobody has decided an approval within the time that its rule gives, so that the rule decides.
CREATE OR REPLACE FUNCTION th_undecided(kind text, params json, due_at timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN kind = 'approval' AND due_at < clock_timestamp()
                THEN params #>> '{decided,otherwise}' IS NOT NULL ELSE false END
$$;

-- Why this person may not decide this question, whatever their role and groups: the code of an obstacle
-- (`inbox.Obstacle`), empty where there is none. Once the time of a rule is over, nobody decides any more. A rule that
-- asked may exclude whoever made the call: the person for whom its application acts, and the person who ran it again in
-- the console. A person does not approve a call if, since it was made, they got their rights (such as from whoever made
-- it), or changed the rules or somebody's rights. What an approver asks the requester is for that person alone.
CREATE OR REPLACE FUNCTION th_barred(asked bigint, person bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN q.about_id IS NOT NULL AND person IS NOT NULL AND person IS DISTINCT FROM q.person_id THEN 'person'
        WHEN q.kind <> 'approval' THEN ''
        WHEN th_undecided(q.kind, q.params, q.due_at) THEN 'overdue'
        WHEN person IS NULL THEN ''
        WHEN q.params #>> '{decided,not_requester}' = 'true' AND th_user_of(c) = person THEN 'requester'
        WHEN q.params #>> '{decided,not_requester}' = 'true'
             AND EXISTS (SELECT FROM event e WHERE e.task_id = t.id AND e.action = 'task.created'
                         AND e.user_id = person) THEN 'reran'
        WHEN m.granted_at > t.created_at THEN 'fresh'
        WHEN m.governed_at > t.created_at THEN 'governed'
        ELSE '' END
    FROM question q JOIN task t ON t.id = q.task_id JOIN auth_context c ON c.id = t.context_id
    LEFT JOIN membership m ON m.tenant_id = t.tenant_id AND m.user_id = person
    WHERE q.id = asked
$$;

-- Whether whoever approves has to confirm a second factor, according to the params of the approval.
CREATE OR REPLACE FUNCTION th_needs_factor(params json) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(params #>> '{decided,second_factor}' = 'true', false)
$$;

-- The kind of the second factor that this person has just confirmed and still has; empty if there is none.
CREATE OR REPLACE FUNCTION th_confirmed(person bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT a.type FROM mfa_authenticator a
                     WHERE a.id = th_who('factor')::bigint AND a.user_id = person), '')
$$;

-- A number of minutes as people read it: '2 d', '3 h' or '45 min'.
CREATE OR REPLACE FUNCTION th_minutes(minutes int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN minutes % 1440 = 0 THEN minutes / 1440 || ' d' WHEN minutes % 60 = 0 THEN minutes / 60 || ' h'
                ELSE minutes || ' min' END
$$;

-- Does what the rule that asked for an approval says for the case that nobody decides in time: the call is denied or
-- runs, or another group is asked. The event names the rule as its actor, and no person. Returns whether there was such
-- an approval. The caller holds the lock of the task. If the calling program had given the approval less time than the
-- rule, it only records the event, and returns false.
CREATE OR REPLACE FUNCTION th_decide_undecided(p_task bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    asked record;
    told text;
    said text;
BEGIN
    SELECT q.id, q.key, q.params, q."group", q.quorum, t.tenant_id, t.context_id, t.tool_name, t.arguments_digest,
           t.revision, t.lease_until IS NOT NULL AS held, q.params #>> '{decided,otherwise}' AS otherwise,
           q.params #>> '{decided,escalate_to}' AS next, (q.params #>> '{decided,version}')::int AS version,
           q.params #>> '{decided,rule}' AS rule, left('rule ' || (q.params #>> '{decided,rule}'), 255) AS actor,
           th_minutes((q.params #>> '{decided,expires_minutes}')::int) AS within,
           coalesce(q.definition_digest, t.tool_digest) AS definition_digest, q.call_digest
    INTO asked FROM question q JOIN task t ON t.id = q.task_id
    WHERE q.task_id = p_task AND q.state = 'open' AND th_undecided(q.kind, q.params, q.due_at);
    IF NOT FOUND THEN
        INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, after)
        SELECT t.tenant_id, t.id, 'question.undecided', coalesce(th_who('name'), session_user),
               coalesce(th_who('door'), 'sql'), t.context_id, t.tool_name, jsonb_strip_nulls(jsonb_build_object(
                   'key', q.key, 'kind', 'approval', 'rule', q.params #>> '{decided,rule}',
                   'version', (q.params #>> '{decided,version}')::int))
                   || th_digests(t.arguments_digest, coalesce(q.definition_digest, t.tool_digest),
                                 call => q.call_digest)
        FROM question q JOIN task t ON t.id = q.task_id
        WHERE q.task_id = p_task AND q.state = 'open' AND q.kind = 'approval' AND q.due_at < clock_timestamp();
        RETURN false;
    END IF;
    told := CASE asked.otherwise WHEN 'escalate' THEN th_words('nobody_decided_escalate', asked.within, asked.next)
                                 WHEN 'allow' THEN th_words('nobody_decided_allow', asked.within)
                                 ELSE th_words('nobody_decided_deny', asked.within) END;
    INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, reason, after)
    VALUES (asked.tenant_id, p_task, 'question.undecided', asked.actor, 'policy', asked.context_id, asked.tool_name,
            told, jsonb_strip_nulls(jsonb_build_object(
                'key', asked.key, 'kind', 'approval', 'otherwise', asked.otherwise, 'rule', asked.rule,
                'version', asked.version, 'group', asked.next))
            || th_digests(asked.arguments_digest, asked.definition_digest, call => asked.call_digest));
    IF asked.otherwise = 'escalate' THEN
        UPDATE question SET state = 'expired', closed_at = clock_timestamp() WHERE id = asked.id;
        PERFORM th_open_questions(p_task, asked.tenant_id, json_build_array(json_build_object(
            'key', th_approval_key(p_task), 'kind', 'approval', 'audience', 'operator',
            'group', asked.next, 'quorum', asked.quorum,
            'params', jsonb_set(asked.params::jsonb, '{decided}', (asked.params::jsonb -> 'decided') - 'escalate_to'
                || jsonb_build_object('otherwise', 'deny', 'escalated_from', asked."group")))), false);
        UPDATE task SET version = version + 1, message = th_waiting_for_approval(asked.next, 0, asked.quorum)
        WHERE id = p_task;
        RETURN true;
    END IF;
    INSERT INTO decision (question_id, actor, verdict, reason, arguments_digest, call_digest, door, at)
    VALUES (asked.id, asked.actor, asked.otherwise, told, asked.arguments_digest, asked.call_digest, 'policy',
            clock_timestamp());
    IF asked.otherwise = 'allow' THEN
        UPDATE question SET state = 'answered', closed_at = clock_timestamp(),
               response = json_build_object('verdict', 'allow', 'by', asked.actor, 'reason', told)::text
        WHERE id = asked.id;
        IF asked.revision = 'approvals' THEN
            PERFORM th_permit(p_task);
        ELSE
            PERFORM th_go_on(p_task, asked.held, NULL);
        END IF;
        RETURN true;
    END IF;
    UPDATE question SET state = CASE WHEN id = asked.id THEN 'expired' ELSE 'superseded' END,
           closed_at = clock_timestamp() WHERE task_id = p_task AND state = 'open';
    said := th_words('not_approved', coalesce(asked.params ->> 'tool', asked.tool_name),
                     th_words('nobody_decided', asked.within));
    UPDATE task SET state = 'finished', is_error = true, ended_as = 'expired', ended_at = clock_timestamp(),
           lease_until = NULL, message = told, upstream_state = NULL, result = json_build_object('isError', true,
               'content', json_build_array(json_build_object('type', 'text', 'text', said)))::text WHERE id = p_task;
    RETURN true;
END $$;

-- Reminds people of approvals that they have not decided by the time that the rule says: once of each, and of at most
-- p_limit approvals now. The event says which group is asked and how many people still have to approve. The task does
-- not change, but pages show the reminder, so a hint is sent. Returns the number of approvals of which people were
-- reminded.
CREATE OR REPLACE FUNCTION th_remind(p_moment timestamptz, p_limit int) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    late record;
    reminded int := 0;
BEGIN
    FOR late IN
        SELECT q.id, t.id AS task_id, t.tenant_id, t.context_id, t.tool_name
        FROM question q JOIN task t ON t.id = q.task_id
        WHERE q.closed_at IS NULL AND q.reminded_at IS NULL AND q.remind_at < p_moment AND q.due_at > p_moment
        ORDER BY q.remind_at LIMIT p_limit FOR UPDATE OF t SKIP LOCKED
    LOOP
        -- Checked again under the lock: meanwhile somebody may have decided, or another sweep may have reminded people.
        UPDATE question SET reminded_at = clock_timestamp()
        WHERE id = late.id AND closed_at IS NULL AND reminded_at IS NULL;
        CONTINUE WHEN NOT FOUND;
        reminded := reminded + 1;
        INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, after)
        SELECT late.tenant_id, late.task_id, 'question.reminded',
               left('rule ' || (q.params #>> '{decided,rule}'), 255), 'policy', late.context_id, late.tool_name,
               jsonb_strip_nulls(jsonb_build_object(
                   'key', q.key, 'kind', 'approval', 'rule', q.params #>> '{decided,rule}',
                   'version', (q.params #>> '{decided,version}')::int, 'group', nullif(q."group", ''),
                   'needed', q.quorum - (SELECT count(*) FROM decision d
                                         WHERE d.question_id = q.id AND d.verdict = 'approve')))
        FROM question q WHERE q.id = late.id;
        PERFORM pg_notify('taskhub', th_hint(t)) FROM task t WHERE t.id = late.task_id;
    END LOOP;
    RETURN reminded;
END $$;

-- Stores one answer. Returns the outcome: 'answered', 'counted' (an approval below the quorum), 'late' (the question
-- was closed before, or passed on from clients to people), 'passed on' (a client's program declined by itself, and by
-- the tool's policy people are asked then: the question stays open), 'twice' (this person has decided already),
-- 'barred' (this person may not decide the question: th_barred; or not as the deputy of the person who is away:
-- th_stands_in), 'previewing' (nobody can approve before the preview has ended), 'unconfirmed' (whoever approves has to
-- confirm a second factor: th_confirmed) or 'unknown' (no such question). The first valid answer wins, because every
-- change locks the task row first. The event contains the digests of the arguments and the tool's definition.
-- Whoever decides on an approval may undo the decision for p_undo seconds (undo_decision). Until then no worker takes
-- the task: an approved call does not run, and the caller of a rejected call is not told. A call that its client makes
-- itself, or whose tool waits in a worker, cannot be held, so its decision cannot be undone.
CREATE OR REPLACE FUNCTION answer(p_task bigint, p_key text, p_response text, p_verdict text, p_reason text,
                          p_user bigint, p_context bigint, p_final_result text, p_who text, p_undo float8)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    asked record;
    left_open bigint;
    approvals bigint;
    why text := p_reason;
    passed_on boolean := false;
    arguments bytea;
    factor text := '';
    undo_until timestamptz;
    stands_for bigint;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    stands_for := th_who('for')::bigint;
    SELECT id, state, lease_until, arguments_digest, tool_digest, tenant_id, context_id, tool_name, tool_id, revision,
           edited
    INTO owner FROM task WHERE id = p_task FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    SELECT q.id, q.state, q.quorum, q.kind, q.audience, q."group", q.definition_digest, q.opened_at, q.about_id,
           th_seen_digest(q.call_digest, p.digest) AS call_digest, p.digest AS preview_digest,
           p.question_id IS NOT NULL AND p.ended_at IS NULL AS previewing,
           CASE WHEN q.kind = 'approval' THEN q.params -> 'edited' END AS edited,
           q.kind = 'approval' AND th_needs_factor(q.params) AS needs_factor
    INTO asked FROM question q LEFT JOIN preview p ON p.question_id = q.id
    WHERE q.task_id = p_task AND q.key = p_key;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF asked.state <> 'open' THEN
        RETURN 'late';
    END IF;
    IF p_context IS NOT NULL AND asked.audience = 'operator'
       AND EXISTS (SELECT 1 FROM decision WHERE question_id = asked.id AND context_id IS NOT NULL) THEN
        RETURN 'late';
    END IF;
    IF th_voted(asked.id, p_user) THEN
        RETURN 'twice';
    END IF;
    IF th_barred(asked.id, p_user) <> '' OR NOT th_as_deputy(asked.id, p_user, stands_for) THEN
        RETURN 'barred';
    END IF;
    IF asked.previewing AND p_verdict = 'approve' THEN
        RETURN 'previewing';
    END IF;
    IF asked.needs_factor AND p_verdict = 'approve' THEN
        factor := th_confirmed(p_user);
        IF factor = '' THEN
            RETURN 'unconfirmed';
        END IF;
    END IF;
    -- Nobody reads a question within a second, so this is the program: many decline what they cannot show, without
    -- asking their user.
    IF p_context IS NOT NULL AND why = '' AND p_verdict IN ('decline', 'cancel') AND clock_timestamp() < coalesce(
        (SELECT max(o.sent_at) FROM outbound o WHERE o.question_id = asked.id AND NOT o.page), asked.opened_at)
        + interval '1 second' THEN
        why := th_words('programs_no');
        SELECT people_after_program AND asked.about_id IS NULL INTO passed_on FROM tool WHERE id = owner.tool_id;
    END IF;
    arguments := coalesce(decode(asked.edited ->> 'digest', 'hex'), owner.arguments_digest);
    IF p_undo > 0 AND p_user IS NOT NULL AND asked.kind = 'approval' AND owner.revision <> 'approvals'
       AND owner.lease_until IS NULL
       AND NOT EXISTS (SELECT FROM question WHERE task_id = p_task AND state = 'open'
                       AND asked.id NOT IN (id, coalesce(about_id, 0))) THEN
        undo_until := clock_timestamp() + make_interval(secs => p_undo);
    END IF;
    INSERT INTO decision (question_id, actor, user_id, for_user_id, context_id, verdict, reason, arguments_digest,
                          call_digest, preview_digest, second_factor, door, at, undo_until)
    VALUES (asked.id, coalesce(th_who('name'), session_user), p_user, stands_for, p_context, p_verdict,
            left(why, 1024), arguments, asked.call_digest, asked.preview_digest, factor,
            coalesce(th_who('door'), 'sql'), clock_timestamp(), undo_until);
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, reason, after)
    SELECT owner.tenant_id, owner.id, 'question.' || p_verdict, coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), owner.context_id, p_user,
           owner.tool_name, left(why, 1024), jsonb_build_object('key', p_key, 'kind', asked.kind)
           || CASE WHEN asked.edited IS NULL THEN '{}' ELSE
                  jsonb_build_object('edited', (asked.edited -> 'names')::jsonb) END
           || th_digests(arguments, coalesce(asked.definition_digest, owner.tool_digest),
                         call => asked.call_digest)
           || jsonb_strip_nulls(jsonb_build_object(
               'preview_sha256', encode(asked.preview_digest, 'hex'), 'second_factor', nullif(factor, ''),
               'for', (SELECT u.username FROM auth_user u WHERE u.id = stands_for)))
    WHERE asked.about_id IS NULL;
    IF passed_on THEN
        INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, reason, before, after)
        VALUES (owner.tenant_id, owner.id, 'question.passed.on', 'policy', 'policy', owner.context_id, owner.tool_name,
                th_words('people_after_program'), jsonb_build_object('audience', asked.audience),
                jsonb_build_object('audience', 'operator', 'key', p_key, 'kind', asked.kind));
        UPDATE question SET audience = 'operator' WHERE id = asked.id;
        SELECT count(*) INTO left_open FROM question
        WHERE task_id = p_task AND state = 'open' AND audience <> 'operator';
        UPDATE task SET version = version + 1,
               message = CASE WHEN left_open = 0 THEN th_words('waiting_operator') ELSE message END WHERE id = p_task;
        RETURN 'passed on';
    END IF;
    IF asked.kind = 'approval' AND p_verdict = 'approve' THEN
        SELECT count(*) INTO approvals FROM decision WHERE question_id = asked.id AND verdict = 'approve';
        IF approvals < asked.quorum THEN
            UPDATE task SET message = th_waiting_for_approval(asked."group", approvals, asked.quorum) WHERE id = p_task;
            RETURN 'counted';
        END IF;
    END IF;
    UPDATE question SET state = 'answered', closed_at = clock_timestamp(),
           response = CASE WHEN undo_until IS NULL OR p_final_result IS NULL THEN p_response
                           ELSE th_with(p_response::json, 'result', p_final_result::json)::text END
    WHERE id = asked.id;
    IF asked.about_id IS NOT NULL THEN
        PERFORM th_answered_back(asked.id, p_verdict, p_response, why, p_user);
        RETURN 'answered';
    END IF;
    IF p_final_result IS NOT NULL AND undo_until IS NOT NULL THEN
        -- The rejection can still be undone. After that, whoever takes the task ends it (th_end_rejected).
        PERFORM th_go_on(p_task, false, undo_until);
        RETURN 'answered';
    END IF;
    IF p_final_result IS NOT NULL THEN
        -- An approver rejected the call: the tool never runs, and the caller reads why. Or somebody ruled that the tool
        -- ran, although its run was lost.
        UPDATE question SET state = 'superseded', closed_at = clock_timestamp()
        WHERE task_id = p_task AND state = 'open';
        UPDATE task SET state = 'finished', result = p_final_result,
               is_error = coalesce((p_final_result::json ->> 'isError')::boolean, false),
               ended_as = CASE WHEN asked.kind = 'approval' THEN 'rejected' ELSE '' END, ended_at = clock_timestamp(),
               message = left(p_reason, 1024), upstream_state = NULL WHERE id = p_task;
        RETURN 'answered';
    END IF;
    IF asked.kind = 'approval' AND owner.edited::text IS DISTINCT FROM asked.edited::text THEN
        UPDATE task SET edited = asked.edited WHERE id = p_task;
    END IF;
    IF owner.revision = 'approvals' THEN
        PERFORM th_permit(p_task);
        RETURN 'answered';
    END IF;
    PERFORM th_go_on(p_task, owner.lease_until IS NOT NULL, undo_until);
    RETURN 'answered';
END $$;

-- Proposes other arguments for a call that waits for an approval. The question is closed, and p_approval, an array of
-- one, replaces it for the rest of its time: votes on the closed question do not count for the new one. With p_votes,
-- whoever proposes the arguments also approves them. Returns the outcome as answer() does, for the question that is
-- closed, and two more: 'changed' (the tool or its server is not as people were shown it: nothing is changed) and
-- 'proposed' (their vote does not count for the new question: others decide it). For a call that its client makes
-- itself, returns 'unknown'.
CREATE OR REPLACE FUNCTION edit_call(p_task bigint, p_key text, p_approval json, p_response text, p_reason text,
                                     p_user bigint, p_votes boolean, p_who text, p_undo float8)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    asked record;
    wanted json := p_approval -> 0;
    outcome text;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT id, tenant_id, context_id, tool_name, tool_digest, arguments_digest, revision INTO owner
    FROM task WHERE id = p_task FOR UPDATE;
    IF NOT FOUND OR owner.revision = 'approvals' THEN
        RETURN 'unknown';
    END IF;
    SELECT id, state, kind, params, "group", quorum, due_at, definition_digest, call_digest INTO asked
    FROM question WHERE task_id = p_task AND key = p_key AND kind = 'approval';
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF asked.state <> 'open' THEN
        RETURN 'late';
    END IF;
    IF th_voted(asked.id, p_user) THEN
        RETURN 'twice';
    END IF;
    IF th_barred(asked.id, p_user) <> '' OR NOT th_as_deputy(asked.id, p_user, th_who('for')::bigint) THEN
        RETURN 'barred';
    END IF;
    IF (th_needs_factor(asked.params) OR th_needs_factor(wanted -> 'params')) AND th_confirmed(p_user) = '' THEN
        RETURN 'unconfirmed';
    END IF;
    IF asked.call_digest IS DISTINCT FROM th_call_digest(p_task, asked.params, asked."group", asked.quorum) THEN
        RETURN 'changed';
    END IF;
    wanted := th_with(wanted, 'key', to_json(th_approval_key(p_task)));
    wanted := th_with(wanted, 'due_seconds', to_json(
        greatest(extract(epoch FROM asked.due_at - clock_timestamp()), 0)::float8));
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE id = asked.id;
    PERFORM th_open_questions(p_task, owner.tenant_id, json_build_array(wanted), false);
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, reason, after)
    SELECT owner.tenant_id, owner.id, 'question.edited', coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), owner.context_id, p_user,
           owner.tool_name, left(p_reason, 1024), jsonb_build_object(
               'key', p_key, 'kind', 'approval', 'asked', q.key,
               'edited', coalesce((q.params #> '{edited,names}')::jsonb, '[]'))
           || jsonb_strip_nulls(jsonb_build_object('for', (
               SELECT u.username FROM auth_user u WHERE u.id = th_who('for')::bigint)))
           || th_digests(coalesce(decode(q.params #>> '{edited,digest}', 'hex'), owner.arguments_digest),
                         q.definition_digest, call => q.call_digest)
    FROM question q WHERE q.task_id = p_task AND q.state = 'open' AND q.kind = 'approval';
    UPDATE task SET version = version + 1, message = th_waiting_for_approval(
        coalesce(wanted ->> 'group', ''), 0, coalesce((wanted ->> 'quorum')::int, 1)) WHERE id = p_task;
    -- Nobody approves a call whose preview they have not seen.
    IF p_votes AND wanted #> '{params,decided,preview}' IS NULL THEN
        outcome := answer(p_task, wanted ->> 'key', p_response, 'approve', p_reason, p_user, NULL, NULL, p_who,
                          p_undo);
    END IF;
    RETURN CASE WHEN outcome IN ('answered', 'counted') THEN outcome ELSE 'proposed' END;
END $$;

-- Lets the task go on if no question is open: in the worker that holds it (p_held), otherwise by another claim. With
-- p_after, it is not claimed before that moment, and keeps its message until then, so that nobody outside notices a
-- decision that is undone.
CREATE OR REPLACE FUNCTION th_go_on(p_task bigint, p_held boolean, p_after timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    left_open bigint;
    left_ms int;
BEGIN
    SELECT count(*) INTO left_open FROM question WHERE task_id = p_task AND state = 'open';
    IF left_open > 0 THEN
        UPDATE task SET message = CASE WHEN left_open = 1 THEN th_words('more_answer')
                                   ELSE th_words('more_answers', left_open::text) END WHERE id = p_task;
        RETURN;
    END IF;
    UPDATE task SET state = CASE WHEN p_held THEN 'working' ELSE 'queued' END,
           message = CASE WHEN p_after IS NULL THEN '' ELSE message END,
           runnable_at = coalesce(p_after, clock_timestamp()) WHERE id = p_task;
    IF p_after IS NOT NULL THEN
        left_ms := ceil(extract(epoch FROM p_after - clock_timestamp()) * 1000);
        PERFORM pg_notify('taskhub', 'h ' || left_ms);
    END IF;
    IF NOT p_held THEN
        PERFORM th_wake_workers();
    END IF;
END $$;
