-- What people say beside a decision: comments on a question, and to whom it is handed over.

-- Adds a comment to a question, as an event. With p_handed, hands the question over to the person p_to, or to the group
-- p_group if p_to is null. A question that is handed over leaves the queue of whoever did that; who may answer it does
-- not change. Returns the outcome: 'done', 'late' (the question is closed) or 'full' (the task has p_most remarks).
CREATE OR REPLACE FUNCTION remark(p_question bigint, p_text text, p_handed boolean, p_to bigint, p_group text,
                                  p_user bigint, p_most int, p_who text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    asked record;
    told text := CASE WHEN p_handed THEN 'question.handed.over' ELSE 'question.commented' END;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT t.id, t.tenant_id, t.context_id, t.tool_name INTO asked
    FROM task t WHERE t.id = (SELECT q.task_id FROM question q WHERE q.id = p_question) FOR UPDATE;
    IF NOT EXISTS (SELECT FROM question q WHERE q.id = p_question AND q.state = 'open') THEN
        RETURN 'late';
    END IF;
    IF (SELECT count(*) FROM event e WHERE e.task_id = asked.id
        AND e.action IN ('question.commented', 'question.handed.over')) >= p_most THEN
        RETURN 'full';
    END IF;
    IF p_handed THEN
        UPDATE question SET handed_to_id = p_to, handed_group = p_group, handed_by_id = p_user WHERE id = p_question;
    END IF;
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, reason, after)
    SELECT asked.tenant_id, asked.id, told, coalesce(th_who('name'), session_user), coalesce(th_who('door'), 'sql'),
           coalesce(th_who('address'), ''), asked.context_id, p_user, asked.tool_name, p_text,
           jsonb_strip_nulls(jsonb_build_object(
               'key', q.key, 'kind', q.kind, 'group', CASE WHEN p_handed THEN nullif(p_group, '') END,
               'person', (SELECT u.username FROM auth_user u WHERE p_handed AND u.id = p_to)))
    FROM question q WHERE q.id = p_question;
    RETURN 'done';
END $$;
