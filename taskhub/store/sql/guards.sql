-- The guards: trigger functions that refuse changes, whatever program makes them. Their SQLSTATEs:
--   TH001 immutable column   TH002 terminal task      TH003 illegal transition
--   TH004 lease epoch        TH005 cancel request     TH006 closed question
--   TH007 input_required <> open question             TH008 append-only table
--   TH009 the last admin of a tenant             TH010 a removed server
--   TH011 a deferred call and its task           TH012 a permit
--   TH013 a preview
--   TH014 a bypass
--   TH015 edited arguments
--   TH016 a second factor
--   TH017 a place in the feed
--   TH018 a decision that may still be undone
--   TH019 a deputy
--   TH020 what an approver asks the requester
-- The pairs of states in task_guard repeat taskhub.core.states.PAIRS; a test compares the two.

CREATE OR REPLACE FUNCTION th_who(part text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('th.who', true), '')::jsonb ->> part
$$;

CREATE OR REPLACE FUNCTION task_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state NOT IN ('queued', 'input_required', 'working') THEN
            RAISE EXCEPTION 'a task is born queued, input_required or working, not %', NEW.state
                USING ERRCODE = 'TH003';
        END IF;
        IF (NEW.state = 'working') <> ((NEW.worker <> '' AND NEW.lease_until < 'infinity') IS TRUE)
           OR NEW.lease_epoch <> (NEW.state = 'working')::int THEN
            RAISE EXCEPTION 'a task is born with the first lease of a worker if and only if it is born working'
                USING ERRCODE = 'TH004';
        END IF;
        IF NEW.public_id !~ '^[A-Za-z0-9_-]{22,64}$' THEN
            RAISE EXCEPTION 'public_id must be 22 to 64 url-safe characters' USING ERRCODE = 'TH001';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.id, NEW.public_id, NEW.tenant_id, NEW.context_id, NEW.tool_id, NEW.tool_name, NEW.revision,
        NEW.arguments_digest, NEW.tool_digest, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.public_id, OLD.tenant_id, OLD.context_id, OLD.tool_id, OLD.tool_name, OLD.revision,
        OLD.arguments_digest, OLD.tool_digest, OLD.created_at)
       OR NEW.arguments::text IS DISTINCT FROM OLD.arguments::text
       OR NEW.answers IS DISTINCT FROM OLD.answers
       OR NEW.decided IS DISTINCT FROM OLD.decided
          AND (OLD.ended_at IS NOT NULL OR NEW.decided IS NULL
               OR (NEW.decided ->> 'version')::int < (OLD.decided ->> 'version')::int)
       OR NEW.idempotency_key IS DISTINCT FROM OLD.idempotency_key THEN
        RAISE EXCEPTION 'identity, owner, tool and arguments of a task never change' USING ERRCODE = 'TH001';
    END IF;
    IF OLD.ended_at IS NOT NULL AND
       (NEW.state, NEW.message, NEW.result, NEW.error, NEW.is_error, NEW.ended_as, NEW.ended_at, NEW.lease_epoch,
        NEW.lease_until, NEW.progress, NEW.total, NEW.cancel_requested_at, NEW.upstream_state)
       IS DISTINCT FROM
       (OLD.state, OLD.message, OLD.result, OLD.error, OLD.is_error, OLD.ended_as, OLD.ended_at, OLD.lease_epoch,
        OLD.lease_until, OLD.progress, OLD.total, OLD.cancel_requested_at, OLD.upstream_state) THEN
        RAISE EXCEPTION 'task % is %: nothing about it changes any more', OLD.public_id, OLD.state
            USING ERRCODE = 'TH002';
    END IF;
    IF NEW.state <> OLD.state AND (OLD.state || '>' || NEW.state) NOT IN (
        'queued>working', 'queued>input_required', 'queued>finished', 'queued>faulted', 'queued>cancelled',
        'working>queued', 'working>input_required', 'working>finished', 'working>faulted',
        'working>cancelled',
        'input_required>queued', 'input_required>working', 'input_required>finished',
        'input_required>faulted', 'input_required>cancelled'
    ) THEN
        RAISE EXCEPTION 'a task cannot go from % to %', OLD.state, NEW.state USING ERRCODE = 'TH003';
    END IF;
    IF NEW.lease_epoch < OLD.lease_epoch OR NEW.lease_epoch > OLD.lease_epoch + 1 THEN
        RAISE EXCEPTION 'lease_epoch goes from % to % only', OLD.lease_epoch, OLD.lease_epoch + 1
            USING ERRCODE = 'TH004';
    END IF;
    IF OLD.cancel_requested_at IS NOT NULL THEN
        IF NEW.cancel_requested_at IS DISTINCT FROM OLD.cancel_requested_at THEN
            RAISE EXCEPTION 'a cancel request is made once and stays' USING ERRCODE = 'TH005';
        END IF;
        IF NEW.state = 'working' AND OLD.state = 'queued' THEN
            RAISE EXCEPTION 'a task with a cancel request is not claimed' USING ERRCODE = 'TH005';
        END IF;
    END IF;
    -- Whatever the outcome, the client has at least an hour to read it.
    IF NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL AND NEW.expires_at < NEW.ended_at + interval '1 hour' THEN
        NEW.expires_at := NEW.ended_at + interval '1 hour';
        NEW.ttl_ms := least(2592000000, (extract(epoch FROM NEW.expires_at - NEW.created_at) * 1000)::bigint);
    END IF;
    -- The version is raised for changes that a client should see: not for polls, nor for a longer time to live. To ask
    -- one more question changes no column of the task, so the function that asks raises the version itself.
    IF (OLD.ended_at IS NULL AND NEW.version = OLD.version + 1)
       OR (NEW.state, NEW.message, NEW.progress, NEW.total, NEW.cancel_requested_at, NEW.lease_epoch)
       IS DISTINCT FROM
       (OLD.state, OLD.message, OLD.progress, OLD.total, OLD.cancel_requested_at, OLD.lease_epoch) THEN
        NEW.version := OLD.version + 1;
        NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at);
    ELSIF (NEW.version, NEW.updated_at) IS DISTINCT FROM (OLD.version, OLD.updated_at) THEN
        RAISE EXCEPTION 'version and updated_at mark visible changes and nothing else' USING ERRCODE = 'TH001';
    END IF;
    RETURN NEW;
END $$;

-- The arguments that run instead of those of the call are what people approved: they are copied from the task's newest
-- answered approval, while the task waits for an answer.
CREATE OR REPLACE FUNCTION task_edited_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.state <> 'input_required' OR NEW.edited::text IS DISTINCT FROM (
        SELECT (q.params -> 'edited')::text FROM question q
        WHERE q.task_id = NEW.id AND q.kind = 'approval' AND q.state = 'answered' ORDER BY q.id DESC LIMIT 1) THEN
        RAISE EXCEPTION 'task % runs with the arguments that were approved', NEW.public_id USING ERRCODE = 'TH015';
    END IF;
    RETURN NEW;
END $$;

-- Tells the client of a call which of its arguments people edited, in every outcome: in `_meta` of the result, and in a
-- last block of text, which a model reads; or in the message and the data of the error.
CREATE OR REPLACE FUNCTION task_tells_edited() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told json := json_build_object('by', NEW.edited -> 'by', 'arguments', NEW.edited -> 'changed',
                                   'removed', NEW.edited -> 'removed');
    text text := NEW.edited ->> 'told';
    body json;
BEGIN
    IF NEW.result IS NOT NULL THEN
        body := NEW.result::json;
        IF coalesce(json_typeof(body -> 'content'), 'array') = 'array' THEN
            body := th_with(body, 'content', (
                SELECT json_agg(b.block) FROM (
                    SELECT e.block FROM json_array_elements(coalesce(body -> 'content', '[]')) AS e(block)
                    UNION ALL SELECT json_build_object('type', 'text', 'text', text)) AS b));
        END IF;
        NEW.result := th_with(body, '_meta', th_with(
            CASE WHEN json_typeof(body -> '_meta') = 'object' THEN body -> '_meta' ELSE '{}' END,
            'taskhub/edited', told))::text;
    ELSIF NEW.error IS NOT NULL THEN
        body := NEW.error::json;
        body := th_with(body, 'message', to_json(concat_ws(' ', body ->> 'message', '(' || text || ')')));
        IF coalesce(json_typeof(body -> 'data'), 'null') IN ('null', 'object') THEN
            body := th_with(body, 'data', th_with(
                CASE WHEN json_typeof(body -> 'data') = 'object' THEN body -> 'data' ELSE '{}' END,
                'taskhub/edited', told));
        END IF;
        NEW.error := body::text;
    END IF;
    RETURN NEW;
END $$;

-- A removed server stays as it is, whatever a worker stores about it afterwards.
CREATE OR REPLACE FUNCTION server_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'server % is removed and stays as it is', OLD.name USING ERRCODE = 'TH010';
END $$;

-- A closed question never changes. The exception is an approval, which is open again if the decision on it is undone in
-- time and no worker has taken its task. The params and the tool's definition of an open question never change, and its
-- audience changes only from the client to people.
CREATE OR REPLACE FUNCTION question_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'open' AND NOT (
        OLD.state = 'answered' AND OLD.kind = 'approval' AND NEW.state = 'open' AND NEW.remind_at IS NOT DISTINCT FROM
        OLD.remind_at AND (NEW.due_at, NEW.audience, NEW.live) IS NOT DISTINCT FROM (OLD.due_at, OLD.audience, OLD.live)
        AND EXISTS (SELECT FROM decision d JOIN task t ON t.id = OLD.task_id WHERE d.question_id = OLD.id
                    AND d.undo_until > statement_timestamp() AND t.state = 'queued')) OR
       NEW.audience NOT IN (OLD.audience, 'operator') OR
       (OLD.reminded_at IS NOT NULL AND NEW.reminded_at IS DISTINCT FROM OLD.reminded_at) OR
       (NEW.task_id, NEW.tenant_id, NEW.key, NEW.kind, NEW.params::text, NEW."group", NEW.quorum,
        NEW.opened_at, NEW.called_at, NEW.definition::text, NEW.definition_digest, NEW.call_digest, NEW.alike,
        NEW.about_id)
       IS DISTINCT FROM
       (OLD.task_id, OLD.tenant_id, OLD.key, OLD.kind, OLD.params::text, OLD."group", OLD.quorum,
        OLD.opened_at, OLD.called_at, OLD.definition::text, OLD.definition_digest, OLD.call_digest, OLD.alike,
        OLD.about_id)
       OR NEW.asked_by_id IS DISTINCT FROM OLD.asked_by_id AND NEW.asked_by_id IS NOT NULL
       OR NEW.person_id IS DISTINCT FROM OLD.person_id AND NEW.person_id IS NOT NULL
    THEN
        RAISE EXCEPTION 'question % is % and stays as it is', OLD.key, OLD.state USING ERRCODE = 'TH006';
    END IF;
    RETURN NEW;
END $$;

-- A question that an approver asks the requester is about an open approval of the same task.
CREATE OR REPLACE FUNCTION question_about_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM question q WHERE q.id = NEW.about_id AND q.task_id = NEW.task_id
                   AND q.kind = 'approval' AND q.state = 'open') THEN
        RAISE EXCEPTION 'question % is about no open approval of its task', NEW.key USING ERRCODE = 'TH020';
    END IF;
    RETURN NEW;
END $$;

-- A question to the requester is closed with its approval, whatever closes that. So no client is asked about a call
-- that is decided.
CREATE OR REPLACE FUNCTION question_closes_asked_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE question SET state = 'superseded', closed_at = NEW.closed_at
    WHERE task_id = NEW.task_id AND about_id = NEW.id AND state = 'open';
    RETURN NULL;
END $$;

-- At commit, a task is input_required if and only if it has an open question. The task is locked, because
-- otherwise two answers to its two last questions would each see the other question still open.
CREATE OR REPLACE FUNCTION input_required_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    subject bigint;
    found_state text;
    open_questions bigint;
BEGIN
    IF TG_TABLE_NAME = 'task' THEN
        subject := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        subject := OLD.task_id;
    ELSE
        subject := NEW.task_id;
    END IF;
    SELECT state INTO found_state FROM task WHERE id = subject FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO open_questions FROM question WHERE task_id = subject AND state = 'open';
    IF (found_state = 'input_required') <> (open_questions > 0) THEN
        RAISE EXCEPTION 'task % is % with % open questions', subject, found_state, open_questions
            USING ERRCODE = 'TH007';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'TH008';
END $$;

-- No worker takes a task while the decision on its approval may be undone.
CREATE OR REPLACE FUNCTION task_held_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM question q JOIN decision d ON d.question_id = q.id
               WHERE q.task_id = NEW.id AND q.kind = 'approval' AND d.undo_until > clock_timestamp()) THEN
        RAISE EXCEPTION 'the decision on task % may still be undone', NEW.public_id USING ERRCODE = 'TH018';
    END IF;
    RETURN NEW;
END $$;

-- A decision is deleted with its question, or if it is undone in time.
CREATE OR REPLACE FUNCTION decision_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM question q WHERE q.id = OLD.question_id)
       AND NOT (coalesce(OLD.undo_until, '-infinity') > statement_timestamp()
                AND EXISTS (SELECT FROM question q WHERE q.id = OLD.question_id AND q.state = 'open')) THEN
        RAISE EXCEPTION 'decision % stays with its question', OLD.id USING ERRCODE = 'TH008';
    END IF;
    RETURN OLD;
END $$;

-- Questions, deferred calls and previews are deleted with the task or question to which they belong, and never alone.
CREATE OR REPLACE FUNCTION goes_with_its_parent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'preview'
       AND EXISTS (SELECT 1 FROM question WHERE id = (to_jsonb(OLD) ->> 'question_id')::bigint)
       OR TG_TABLE_NAME IN ('question', 'deferred')
       AND EXISTS (SELECT 1 FROM task WHERE id = (to_jsonb(OLD) ->> 'task_id')::bigint) THEN
        RAISE EXCEPTION '% is deleted with its task only', TG_TABLE_NAME USING ERRCODE = 'TH008';
    END IF;
    RETURN OLD;
END $$;

-- A deferred call never changes its task, server or attempt. Each poll raises `turn` by one. Once `poll_at` is null,
-- the server's task is over: nothing changes any more, and the id of its session, a credential, is not kept.
CREATE OR REPLACE FUNCTION deferred_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.poll_at IS NULL THEN
        NEW.session := NULL;
    END IF;
    IF OLD.poll_at IS NULL OR NEW.turn NOT IN (OLD.turn, OLD.turn + 1) OR
       (NEW.task_id, NEW.epoch, NEW.server_id, NEW.upstream_id, NEW.revision, NEW.home, NEW.created_at)
       IS DISTINCT FROM
       (OLD.task_id, OLD.epoch, OLD.server_id, OLD.upstream_id, OLD.revision, OLD.home, OLD.created_at)
    THEN
        RAISE EXCEPTION 'the deferred call of task % is % and stays as it is', OLD.task_id, OLD.status
            USING ERRCODE = 'TH011';
    END IF;
    RETURN NEW;
END $$;

-- At commit, a live task has a lease without end if and only if its call is deferred, because nothing but its polls
-- ends a task with such a lease.
CREATE OR REPLACE FUNCTION deferred_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    subject bigint;
BEGIN
    IF TG_TABLE_NAME = 'task' THEN
        subject := NEW.id;
    ELSE
        subject := NEW.task_id;
    END IF;
    IF EXISTS (SELECT FROM task t WHERE t.id = subject AND t.ended_at IS NULL AND (
        coalesce(t.lease_until, '-infinity') = 'infinity' AND t.worker = '')
        <> EXISTS (SELECT FROM deferred d WHERE d.task_id = t.id AND d.poll_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'task % has a lease without end, or a deferred call, but not both', subject
            USING ERRCODE = 'TH011';
    END IF;
    RETURN NULL;
END $$;

-- A live task is never deleted; the purge deletes ended ones.
CREATE OR REPLACE FUNCTION task_delete_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.ended_at IS NULL THEN
        RAISE EXCEPTION 'task % is live and cannot be deleted', OLD.public_id USING ERRCODE = 'TH002';
    END IF;
    RETURN OLD;
END $$;

-- A task of SEP-1686 is kept for a time after its end, not after its creation (T1686-16).
CREATE OR REPLACE FUNCTION task_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.expires_at := NEW.ended_at + NEW.keep_ms * interval '1 millisecond';
    RETURN NEW;
END $$;

-- Notes when somebody got a role, groups or a password from somebody else: that person does not decide on earlier
-- calls.
CREATE OR REPLACE FUNCTION membership_granted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.granted_at := clock_timestamp();
    RETURN NEW;
END $$;

-- The same for somebody who was disabled and may sign in again.
CREATE OR REPLACE FUNCTION auth_user_granted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE membership SET granted_at = clock_timestamp() WHERE user_id = NEW.id;
    RETURN NULL;
END $$;

-- A tenant with an admin who may sign in keeps one, however the change is made: in the console, a shell or by hand.
CREATE OR REPLACE FUNCTION keep_an_admin(wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Locks the tenant, so that of two admins who disable each other, the second is refused. An UPDATE and not just
    -- a lock, so that a REPEATABLE READ transaction with an older snapshot fails.
    UPDATE tenant SET name = name WHERE id = wanted;
    IF NOT EXISTS (SELECT 1 FROM membership m JOIN auth_user u ON u.id = m.user_id AND u.is_active
                   WHERE m.tenant_id = wanted AND m.role = 'admin') THEN
        RAISE EXCEPTION 'this is the only admin; make somebody else admin first' USING ERRCODE = 'TH009';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION membership_keeps_admin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A disabled admin never counted.
    IF EXISTS (SELECT 1 FROM auth_user WHERE id = OLD.user_id AND is_active) THEN
        PERFORM keep_an_admin(OLD.tenant_id);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION auth_user_keeps_admin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM keep_an_admin(tenant_id) FROM membership WHERE user_id = OLD.id AND role = 'admin' ORDER BY tenant_id;
    RETURN NULL;
END $$;

-- Nobody approves a call whose preview is still running, and a decision names the preview that was shown with the call.
CREATE OR REPLACE FUNCTION decision_sees_preview() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    shown record;
BEGIN
    SELECT p.ended_at, p.digest INTO shown FROM preview p WHERE p.question_id = NEW.question_id;
    IF FOUND AND (shown.ended_at IS NULL OR NEW.preview_digest IS DISTINCT FROM shown.digest)
       OR NOT FOUND AND NEW.preview_digest IS NOT NULL THEN
        RAISE EXCEPTION 'the preview of question % is still running, or is another', NEW.question_id
            USING ERRCODE = 'TH013';
    END IF;
    RETURN NEW;
END $$;

-- Nobody approves without a second factor where the rule that asked wants one.
CREATE OR REPLACE FUNCTION decision_has_factor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM question q WHERE q.id = NEW.question_id AND q.kind = 'approval'
               AND q.params #>> '{decided,second_factor}' = 'true') THEN
        RAISE EXCEPTION 'question % is approved with a second factor only', NEW.question_id USING ERRCODE = 'TH016';
    END IF;
    RETURN NEW;
END $$;

-- A person has one vote on a question, their own or that of their deputy. Whoever decides as a deputy has been named by
-- somebody who is away. The locks make two decisions wait for each other, and a decision and the return of that person.
CREATE OR REPLACE FUNCTION decision_of_deputy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM question WHERE id = NEW.question_id FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM decision d WHERE d.question_id = NEW.question_id
               AND (d.for_user_id IN (NEW.user_id, NEW.for_user_id) OR d.user_id = NEW.for_user_id)) THEN
        RAISE EXCEPTION 'a person has one vote on question %, their own or that of a deputy', NEW.question_id
            USING ERRCODE = 'TH019';
    END IF;
    IF NEW.for_user_id IS NOT NULL THEN
        PERFORM FROM question q
        JOIN membership p ON p.tenant_id = q.tenant_id AND p.user_id = NEW.for_user_id
        JOIN absence s ON s.membership_id = p.id
        JOIN membership d ON d.id = s.deputy_id AND d.tenant_id = q.tenant_id AND d.user_id = NEW.user_id
        WHERE q.id = NEW.question_id AND q.kind = 'approval' AND s.until > clock_timestamp() FOR SHARE OF s;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a decision on question % for another is made by the deputy of somebody who is away',
                NEW.question_id USING ERRCODE = 'TH019';
        END IF;
    END IF;
    RETURN NEW;
END $$;

-- A deputy is of the same tenant. `named_at` is when this deputy was named for this absence: a new absence, or another
-- deputy, sets it anew.
CREATE OR REPLACE FUNCTION absence_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.deputy_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM membership p JOIN membership d ON d.tenant_id = p.tenant_id
        WHERE p.id = NEW.membership_id AND d.id = NEW.deputy_id) THEN
        RAISE EXCEPTION 'a deputy belongs to the same tenant' USING ERRCODE = 'TH019';
    END IF;
    IF TG_OP = 'INSERT' OR OLD.until <= clock_timestamp()
       OR (NEW.membership_id, NEW.deputy_id) IS DISTINCT FROM (OLD.membership_id, OLD.deputy_id) THEN
        NEW.named_at := clock_timestamp();
    ELSE
        NEW.named_at := OLD.named_at;
    END IF;
    RETURN NEW;
END $$;

-- What a preview has shown stays as it is.
CREATE OR REPLACE FUNCTION preview_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the preview of question % has ended and stays as it is', OLD.question_id USING ERRCODE = 'TH013';
END $$;

-- A permit changes once, when it is redeemed, and only before it expires; it can be deleted only after it has expired.
-- So nobody can use a permit twice, by whatever program.
CREATE OR REPLACE FUNCTION permit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.expires_at > clock_timestamp() THEN
            RAISE EXCEPTION 'permit % has not expired and stays', OLD.public_id USING ERRCODE = 'TH012';
        END IF;
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF NEW.redeemed_at IS NOT NULL THEN
            RAISE EXCEPTION 'a permit is not born redeemed' USING ERRCODE = 'TH012';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.redeemed_at IS NOT NULL OR NEW.redeemed_at IS NULL
       OR to_jsonb(NEW) - 'redeemed_at' IS DISTINCT FROM to_jsonb(OLD) - 'redeemed_at' THEN
        RAISE EXCEPTION 'permit % is redeemed once and changes in no other way', OLD.public_id
            USING ERRCODE = 'TH012';
    END IF;
    NEW.redeemed_at := clock_timestamp();
    IF NEW.redeemed_at >= OLD.expires_at THEN
        RAISE EXCEPTION 'permit % has expired', OLD.public_id USING ERRCODE = 'TH012';
    END IF;
    RETURN NEW;
END $$;

-- A bypass changes once, when its end is recorded, which is never later than `ends_at`. It is never deleted, because
-- calls name it.
CREATE OR REPLACE FUNCTION bypass_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'bypass % stays', OLD.id USING ERRCODE = 'TH014';
    END IF;
    IF OLD.ended_at IS NOT NULL OR NEW.ended_at IS NULL
       OR to_jsonb(NEW) - 'ended_at' IS DISTINCT FROM to_jsonb(OLD) - 'ended_at' THEN
        RAISE EXCEPTION 'bypass % ends once and changes in no other way', OLD.id USING ERRCODE = 'TH014';
    END IF;
    NEW.ended_at := least(clock_timestamp(), OLD.ends_at);
    RETURN NEW;
END $$;

-- A consumer of the feed only goes forward: if it went back, it would do everything twice.
CREATE OR REPLACE FUNCTION feed_consumer_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.xid, NEW.event_id) < (OLD.xid, OLD.event_id) THEN
        RAISE EXCEPTION 'consumer % of the feed does not go back', OLD.name USING ERRCODE = 'TH017';
    END IF;
    RETURN NEW;
END $$;
