-- Questions that clients answer with an error.

-- Closes a question that the client answered with an error (CH-05). If a tool waits for the answer, it gets the error
-- in place of the answer. If the call would be made again with the answers, it fails with the error. It also fails if
-- its server runs it as a task of 2026-07-28, because such a task takes only answers. If an approver had asked the
-- question, the call goes on waiting for the approval. Returns the outcome: 'answered', 'late' or 'unknown', as in
-- answer().
CREATE OR REPLACE FUNCTION refuse(p_task bigint, p_key text, p_error text, p_message text, p_who text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    held record;
    asked record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT tenant_id, context_id, tool_name, lease_epoch, lease_until INTO held FROM task
    WHERE id = p_task FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    SELECT id, state, kind, live, about_id INTO asked FROM question WHERE task_id = p_task AND key = p_key;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF asked.state <> 'open' THEN
        RETURN 'late';
    END IF;
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, target, reason, after)
    VALUES (held.tenant_id, p_task, 'question.refused', coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), held.context_id, held.tool_name,
            left(p_message, 1024), jsonb_build_object('key', p_key, 'kind', asked.kind));
    IF asked.about_id IS NOT NULL THEN
        UPDATE question SET state = 'superseded', error = p_error, closed_at = clock_timestamp() WHERE id = asked.id;
        UPDATE task SET version = version + 1 WHERE id = p_task;
        RETURN 'answered';
    END IF;
    IF asked.live AND held.lease_until IS NOT NULL AND NOT EXISTS (
        SELECT FROM deferred WHERE task_id = p_task AND poll_at IS NOT NULL AND revision <> '2025-11-25') THEN
        UPDATE question SET state = 'superseded', error = p_error, closed_at = clock_timestamp() WHERE id = asked.id;
        PERFORM th_go_on(p_task, true, NULL);
        RETURN 'answered';
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE task_id = p_task AND state = 'open';
    UPDATE task SET state = 'faulted', error = p_error, message = left(p_message, 1024), ended_at = clock_timestamp(),
           lease_until = NULL, upstream_state = NULL WHERE id = p_task;
    PERFORM th_close_attempt(p_task, held.lease_epoch, 'faulted', p_message);
    RETURN 'answered';
END $$;
