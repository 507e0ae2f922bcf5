-- Deliveries of notices.

-- Stores what came of a delivery. The notice changes only if no later delivery was begun, as after a lost lease. The
-- webhook is locked before its notices, as where they are taken: otherwise two could wait for each other.
CREATE OR REPLACE FUNCTION end_delivery(p_notice bigint, p_number int, p_ok boolean, p_status int,
                                        p_answer text, p_problem text, p_pause float8)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    receiver record;
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT w.id, w.failing_since INTO receiver FROM webhook w
    WHERE w.id = (SELECT n.webhook_id FROM notice n WHERE n.id = p_notice) FOR NO KEY UPDATE;
    UPDATE delivery SET ended_at = moment, status = p_status, answer = p_answer, problem = p_problem
    WHERE notice_id = p_notice AND number = p_number AND ended_at IS NULL;
    UPDATE notice SET lease_until = NULL, problem = CASE WHEN p_ok THEN '' ELSE p_problem END,
           state = CASE WHEN p_ok THEN 'sent' WHEN p_pause IS NULL THEN 'failed' ELSE 'due' END,
           ended_at = CASE WHEN p_ok OR p_pause IS NULL THEN moment END,
           due_at = moment + make_interval(secs => coalesce(p_pause, 0))
    WHERE id = p_notice AND attempts = p_number AND state = 'due';
    IF NOT p_ok THEN
        UPDATE webhook SET failing_since = moment WHERE id = receiver.id AND failing_since IS NULL;
    ELSIF receiver.failing_since IS NOT NULL THEN
        UPDATE webhook SET failing_since = NULL WHERE id = receiver.id;
        UPDATE notice SET due_at = moment
        WHERE webhook_id = receiver.id AND state = 'due' AND lease_until IS NULL AND due_at > moment;
    END IF;
END $$;
