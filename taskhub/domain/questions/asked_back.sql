-- Questions that approvers ask the requester of a call before they decide, and how they end.

-- Asks the requester of the call whose open approval is p_approval: its client (p_audience is client), or the person
-- p_person who signed its program in (operator). The approval stays open. The answer reaches people only: no tool is
-- called with it, since the question has no name at a server. It has no time of its own: it is closed with the
-- approval (question_closes_asked_back). Returns the outcome: 'asked', 'late' (the approval is closed), 'open' (p_open
-- such questions of the call are open) or 'full' (p_most were asked).
CREATE OR REPLACE FUNCTION ask_back(p_approval bigint, p_params json, p_text text, p_audience text, p_person bigint,
                                    p_user bigint, p_open int, p_most int, p_who text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    approval record;
    asked record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT t.id, t.tenant_id, t.context_id, t.tool_name INTO owner
    FROM task t WHERE t.id = (SELECT q.task_id FROM question q WHERE q.id = p_approval) FOR UPDATE;
    SELECT q.id, q.key INTO approval
    FROM question q WHERE q.id = p_approval AND q.kind = 'approval' AND q.state = 'open';
    IF NOT FOUND THEN
        RETURN 'late';
    END IF;
    SELECT count(*) AS made, count(*) FILTER (WHERE q.state = 'open') AS open INTO asked
    FROM question q WHERE q.task_id = owner.id AND q.about_id IS NOT NULL;
    IF asked.made >= p_most THEN
        RETURN 'full';
    END IF;
    IF asked.open >= p_open THEN
        RETURN 'open';
    END IF;
    INSERT INTO question (task_id, tenant_id, key, kind, params, audience, about_id, asked_by_id, person_id)
    VALUES (owner.id, owner.tenant_id, 'asked-back-' || asked.made + 1, 'elicitation', p_params, p_audience,
            p_approval, p_user, p_person);
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, reason, after)
    VALUES (owner.tenant_id, owner.id, 'question.asked.back', coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), owner.context_id, p_user,
            owner.tool_name, p_text, jsonb_build_object(
                'key', 'asked-back-' || asked.made + 1, 'kind', 'elicitation', 'about', approval.key,
                'audience', p_audience));
    -- So that the client, which may be waiting, notices the question.
    UPDATE task SET version = version + 1 WHERE id = owner.id;
    RETURN 'asked';
END $$;

-- Records that the requester has answered a question that an approver asked. The task waits for the approval as before.
-- The event has only a digest of the answer, none of its words.
CREATE OR REPLACE FUNCTION th_answered_back(p_question bigint, p_verdict text, p_response text, p_reason text,
                                            p_user bigint)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, reason, after)
    SELECT t.tenant_id, t.id, 'question.answered.back', coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), t.context_id, p_user, t.tool_name,
           left(p_reason, 1024), jsonb_build_object(
               'key', q.key, 'kind', q.kind, 'about', a.key, 'verdict', p_verdict,
               'answer_sha256', encode(sha256(convert_to(p_response, 'UTF8')), 'hex'))
    FROM question q JOIN question a ON a.id = q.about_id JOIN task t ON t.id = q.task_id WHERE q.id = p_question;
    UPDATE task SET version = version + 1 WHERE id = (SELECT q.task_id FROM question q WHERE q.id = p_question)
$$;

-- Takes a question to the requester back: the person who asked it (p_user) does not want an answer any more. Returns
-- the outcome: 'withdrawn', 'late' (the question is closed) or 'unknown' (p_user did not ask it).
CREATE OR REPLACE FUNCTION withdraw_asked_back(p_question bigint, p_user bigint, p_who text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    asked record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT t.id, t.tenant_id, t.context_id, t.tool_name INTO owner
    FROM task t WHERE t.id = (SELECT q.task_id FROM question q WHERE q.id = p_question) FOR UPDATE;
    SELECT q.key, q.state, a.key AS about INTO asked
    FROM question q JOIN question a ON a.id = q.about_id WHERE q.id = p_question AND q.asked_by_id = p_user;
    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;
    IF asked.state <> 'open' THEN
        RETURN 'late';
    END IF;
    UPDATE question SET state = 'superseded', closed_at = clock_timestamp() WHERE id = p_question;
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, after)
    VALUES (owner.tenant_id, owner.id, 'question.withdrawn', coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), owner.context_id, p_user,
            owner.tool_name, jsonb_build_object('key', asked.key, 'kind', 'elicitation', 'about', asked.about));
    UPDATE task SET version = version + 1 WHERE id = owner.id;
    RETURN 'withdrawn';
END $$;
