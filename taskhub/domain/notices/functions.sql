-- Deliveries of notices.

-- Stores the outcome of a delivery. The notice changes only if no later delivery was begun, which can happen after a
-- lost lease. The webhook is locked before its notices, as when notices are taken: otherwise two transactions could
-- wait for each other.
-- p_pause: the seconds until the next delivery; null if there is none. After an early delivery, the next is made at its
-- planned time, but not before these seconds are over. p_rest: the seconds until the next early delivery; null if there
-- is none. A notice that failed rests before it is sent early again. Otherwise, if a receiver takes all messages but
-- one, that one would be tried again after each other message that it takes.
CREATE OR REPLACE FUNCTION end_delivery(p_notice bigint, p_number int, p_early boolean, p_ok boolean, p_status int,
                                        p_answer text, p_problem text, p_pause float8, p_rest float8)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    receiver record;
    moment timestamptz := clock_timestamp();
    pause interval := make_interval(secs => p_pause);
BEGIN
    SELECT w.id, w.failing_since INTO receiver FROM webhook w
    WHERE w.id = (SELECT n.webhook_id FROM notice n WHERE n.id = p_notice) FOR NO KEY UPDATE;
    UPDATE delivery SET ended_at = moment, status = p_status, answer = p_answer, problem = p_problem
    WHERE notice_id = p_notice AND number = p_number AND ended_at IS NULL;
    UPDATE notice SET lease_until = NULL, problem = CASE WHEN p_ok THEN '' ELSE p_problem END,
           state = CASE WHEN p_ok THEN 'sent' WHEN p_pause IS NULL THEN 'failed' ELSE 'due' END,
           ended_at = CASE WHEN p_ok OR p_pause IS NULL THEN moment END,
           failures = failures + (NOT p_ok AND NOT p_early)::int,
           early_failures = early_failures + (NOT p_ok AND p_early)::int,
           due_at = greatest(CASE WHEN p_early THEN planned_at END, moment + coalesce(pause, '0')),
           planned_at = CASE WHEN NOT p_ok THEN greatest(CASE WHEN p_early THEN planned_at END, moment + pause) END,
           early_at = CASE WHEN NOT p_ok THEN moment + make_interval(secs => p_rest) END
    WHERE id = p_notice AND attempts = p_number AND state = 'due';
    IF NOT p_ok THEN
        UPDATE webhook SET failing_since = coalesce(failing_since, moment), problem = p_problem WHERE id = receiver.id;
    ELSIF receiver.failing_since IS NOT NULL THEN
        UPDATE webhook SET failing_since = NULL, problem = '' WHERE id = receiver.id;
        UPDATE notice SET due_at = greatest(moment, early_at)
        WHERE webhook_id = receiver.id AND state = 'due' AND lease_until IS NULL AND due_at > moment AND due_at > early_at;
    END IF;
END $$;

-- Trigger of `sign_in`: stops notifying browsers whose session was ended before it was too old, such as by a sign-out
-- or a new password.
CREATE OR REPLACE FUNCTION end_browsers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM push_browser b USING ended e WHERE b.session = e.digest AND e.expire_date > clock_timestamp();
    RETURN NULL;
END $$;

-- Trigger of `push_browser`: without a browser the channel does not reach the person any more.
CREATE OR REPLACE FUNCTION end_push() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE notice_address a SET address = '' WHERE a.choices_id = OLD.choices_id AND a.channel = 'push'
        AND NOT EXISTS (SELECT FROM push_browser b WHERE b.choices_id = OLD.choices_id);
    RETURN NULL;
END $$;
