-- Decisions on approvals that are undone, and what follows from those that were not.

-- Takes back this person's decision on an approval, which they may do for some seconds (answer): the question is open
-- again as it was before, and its time ends when it would have ended. The log keeps the decision and the undo. Returns
-- the outcome: 'undone', 'late' (the time for this is over, a worker has the task, the task has ended, or somebody else
-- has decided since) or 'unknown' (the person has not decided the question). A claim and this function lock the task:
-- either the call runs, or the decision is undone.
CREATE OR REPLACE FUNCTION undo_decision(p_question bigint, p_user bigint, p_who text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    owner record;
    asked record;
    last record;
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT t.id, t.tenant_id, t.context_id, t.tool_name, t.state, t.edited INTO owner
    FROM task t WHERE t.id = (SELECT q.task_id FROM question q WHERE q.id = p_question) FOR UPDATE;
    IF NOT FOUND OR NOT EXISTS (SELECT FROM decision WHERE question_id = p_question AND user_id = p_user) THEN
        RETURN 'unknown';
    END IF;
    SELECT q.id, q.key, q.state, q."group", q.quorum INTO asked FROM question q WHERE q.id = p_question;
    SELECT d.id, d.user_id, d.verdict, d.undo_until INTO last
    FROM decision d WHERE d.question_id = p_question ORDER BY d.id DESC LIMIT 1;
    -- The guards compare with the same moment, so that they cannot refuse what is allowed here.
    IF last.user_id IS DISTINCT FROM p_user OR coalesce(last.undo_until, '-infinity') <= statement_timestamp()
       OR (asked.state, owner.state) NOT IN (('answered', 'queued'), ('open', 'input_required')) THEN
        RETURN 'late';
    END IF;
    IF asked.state = 'answered' THEN
        UPDATE question SET state = 'open', response = NULL, closed_at = NULL WHERE id = asked.id;
        UPDATE task SET state = 'input_required' WHERE id = owner.id;
    ELSE
        UPDATE task SET message = th_waiting_for_approval(asked."group", (
            SELECT count(*) - 1 FROM decision d WHERE d.question_id = asked.id AND d.verdict = 'approve'), asked.quorum)
        WHERE id = owner.id;
    END IF;
    DELETE FROM decision WHERE id = last.id;
    IF owner.edited IS NOT NULL AND asked.state = 'answered' THEN
        UPDATE task SET edited = (
            SELECT q.params -> 'edited' FROM question q
            WHERE q.task_id = owner.id AND q.kind = 'approval' AND q.state = 'answered' ORDER BY q.id DESC LIMIT 1)
        WHERE id = owner.id;
    END IF;
    INSERT INTO event (tenant_id, task_id, action, actor, door, address, context_id, user_id, target, after)
    VALUES (owner.tenant_id, owner.id, 'question.undone', coalesce(th_who('name'), session_user),
            coalesce(th_who('door'), 'sql'), coalesce(th_who('address'), ''), owner.context_id, p_user,
            owner.tool_name, jsonb_build_object('key', asked.key, 'kind', 'approval', 'verdict', last.verdict,
                                                'reopened', asked.state = 'answered'));
    RETURN 'undone';
END $$;

-- Ends a task whose approval was rejected by a decision that can no longer be undone: the caller reads why. The caller
-- holds the lock of the task, which is queued.
CREATE OR REPLACE FUNCTION th_end_rejected(p_task bigint, p_question bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE task SET state = 'finished', result = (q.response::json -> 'result')::text, is_error = true,
           ended_as = 'rejected', ended_at = clock_timestamp(),
           message = left(coalesce(q.response::json ->> 'reason', ''), 1024), upstream_state = NULL
    FROM question q WHERE q.id = p_question AND task.id = p_task
$$;
