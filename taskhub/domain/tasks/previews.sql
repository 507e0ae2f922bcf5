-- Previews: what a call that people are asked about would do, shown to them before they decide.

-- Ends the preview of a question, in the try p_tries. Returns whether the preview was still under way. Without p_text
-- there was no answer, and p_problem says why; p_digest is of the whole answer, in hex.
CREATE OR REPLACE FUNCTION end_preview(p_question bigint, p_tries int, p_tool text, p_arguments text, p_text text,
                                       p_left_out int, p_is_error boolean, p_problem text, p_digest text, p_who text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('th.who', p_who, true);
    UPDATE preview SET ended_at = clock_timestamp(), tool_name = p_tool, arguments = p_arguments, text = p_text,
           left_out = p_left_out, is_error = p_is_error, problem = p_problem, digest = decode(p_digest, 'hex')
    WHERE question_id = p_question AND tries = p_tries AND ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM th_record_preview(p_question, p_tool, p_text IS NOT NULL, p_problem, p_digest);
    RETURN true;
END $$;

-- Records the outcome of a preview.
CREATE OR REPLACE FUNCTION th_record_preview(p_question bigint, p_tool text, p_answered boolean, p_problem text,
                                             p_digest text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO event (tenant_id, task_id, action, actor, door, context_id, target, reason, after)
    SELECT t.tenant_id, t.id, 'question.previewed', coalesce(th_who('name'), session_user),
           coalesce(th_who('door'), 'sql'), t.context_id, t.tool_name, left(p_problem, 1024),
           jsonb_build_object('key', q.key, 'tool', p_tool, 'answered', p_answered, 'preview_sha256', p_digest)
    FROM question q JOIN task t ON t.id = q.task_id WHERE q.id = p_question
$$;

-- Compares what the preview shows right before the tool would run with what people approved in p_question. Returns
-- 'same': the tool may run; 'changed': people are asked again, and are shown both; or 'lost': the worker does not hold
-- the task any more, or the task is to be cancelled, or it went back to the queue. A server may take its time for a
-- preview, and what the claim has looked at (th_unfit, th_to_decide) may have changed meanwhile.
CREATE OR REPLACE FUNCTION compare_preview(p_id bigint, p_epoch int, p_question bigint, p_tool text, p_arguments text,
                                           p_text text, p_left_out int, p_is_error boolean, p_problem text,
                                           p_digest text, p_who text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held record;
    asked record;
    again text;
    why text := th_words('preview_changed');
BEGIN
    PERFORM set_config('th.who', p_who, true);
    SELECT t.tenant_id, t.cancel_requested_at,
           th_to_decide(t.tenant_id, t.context_id, t.decided, t.tool_digest, o.digest) AS outdated
    INTO held FROM task t JOIN tool o ON o.id = t.tool_id
    WHERE t.id = p_id AND t.lease_epoch = p_epoch AND th_held(t.lease_until) AND t.ended_at IS NULL FOR UPDATE OF t;
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    SELECT q.params, q."group", q.quorum, p.digest INTO STRICT asked
    FROM question q JOIN preview p ON p.question_id = q.id WHERE q.id = p_question AND q.task_id = p_id;
    IF held.cancel_requested_at IS NOT NULL THEN
        UPDATE task SET state = 'cancelled', message = th_words('cancelled_unstarted'), ended_at = clock_timestamp(),
               lease_until = NULL, upstream_state = NULL WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'cancelled', '');
        RETURN 'lost';
    END IF;
    IF asked.digest = decode(p_digest, 'hex') THEN
        PERFORM th_record_preview(p_question, p_tool, p_text IS NOT NULL, p_problem, p_digest);
        IF NOT held.outdated AND NOT EXISTS (SELECT FROM th_unfit(ARRAY[p_id])) THEN
            RETURN 'same';
        END IF;
        UPDATE task SET state = 'queued', lease_until = NULL, worker = '', runnable_at = clock_timestamp()
        WHERE id = p_id;
        PERFORM th_close_attempt(p_id, p_epoch, 'released', th_words('outdated_while_previewed'));
        PERFORM th_wake_workers();
        RETURN 'lost';
    END IF;
    again := th_approval_key(p_id);
    PERFORM th_open_questions(p_id, held.tenant_id, json_build_array(json_build_object(
        'key', again, 'kind', 'approval', 'audience', 'operator', 'group', asked."group", 'quorum', asked.quorum,
        'params', (SELECT json_object_agg(e.key, e.value) FROM (
            SELECT m.key, m.value FROM json_each(asked.params) m WHERE m.key <> 'asked_again'
            UNION ALL SELECT 'asked_again', to_json('preview_changed'::text)) AS e))), false);
    PERFORM end_preview(q.id, 0, p_tool, p_arguments, p_text, p_left_out, p_is_error, p_problem, p_digest, p_who)
    FROM question q WHERE q.task_id = p_id AND q.key = again;
    UPDATE task SET state = 'input_required', lease_until = NULL, worker = '',
           message = th_words('waiting_again', th_waiting_for_approval(asked."group", 0, asked.quorum), why)
    WHERE id = p_id;
    PERFORM th_close_attempt(p_id, p_epoch, 'released', why);
    RETURN 'changed';
END $$;
