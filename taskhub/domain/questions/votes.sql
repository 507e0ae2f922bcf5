-- Whose decisions on approvals count, also for somebody who is away: their deputy.

-- Whether the person has decided the question, by themselves or through their deputy.
CREATE OR REPLACE FUNCTION th_voted(asked bigint, person bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM decision d
                   WHERE d.question_id = asked AND (d.user_id = person OR d.for_user_id = person))
$$;

-- Whether `person` may decide an approval for `absent`, who is away and has named `person` as deputy. `absent` has to
-- have the role and the group for the approval, and must not have decided it. What bars `absent` (th_barred) bars the
-- deputy too. If `absent` made the call or ran it again, and named the deputy after that, the deputy is barred as well,
-- whatever the rule says of requesters. The role of `person`, and what bars that person, are checked elsewhere.
CREATE OR REPLACE FUNCTION th_stands_in(asked bigint, person bigint, absent bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM question q
        JOIN task t ON t.id = q.task_id
        JOIN auth_context c ON c.id = t.context_id
        JOIN membership p ON p.tenant_id = q.tenant_id AND p.user_id = absent
        JOIN auth_user u ON u.id = p.user_id AND u.is_active
        JOIN absence s ON s.membership_id = p.id AND s.until > clock_timestamp()
        JOIN membership d ON d.id = s.deputy_id AND d.tenant_id = q.tenant_id AND d.user_id = person
        WHERE q.id = asked AND q.kind = 'approval' AND p.role IN ('approver', 'admin')
          AND (q."group" = '' OR q."group" = ANY (p.groups))
          AND NOT th_voted(q.id, absent) AND th_barred(q.id, absent) = ''
          AND NOT (s.named_at > t.created_at AND (
              th_user_of(c) IS NOT DISTINCT FROM absent
              OR EXISTS (SELECT FROM event e WHERE e.task_id = t.id AND e.action = 'task.created'
                         AND e.user_id = absent))))
$$;

-- The person for whom `person` would decide the question as a deputy: the one to whom it was handed over; otherwise
-- somebody in the group that is asked, if `person` is not in that group. Null if `person` decides for themselves, or
-- may not decide.
CREATE OR REPLACE FUNCTION th_acts_for(asked bigint, person bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT p.user_id FROM question q
    JOIN membership d ON d.tenant_id = q.tenant_id AND d.user_id = person
    JOIN absence s ON s.deputy_id = d.id AND s.until > clock_timestamp()
    JOIN membership p ON p.id = s.membership_id
    WHERE q.id = asked
      AND (q.handed_to_id IS NOT DISTINCT FROM p.user_id OR q."group" <> '' AND q."group" <> ALL (d.groups))
      AND th_stands_in(q.id, person, p.user_id)
    ORDER BY q.handed_to_id IS NOT DISTINCT FROM p.user_id DESC, p.user_id LIMIT 1
$$;

-- How many people of these roles may approve the call and have not, at most as many as it needs. Where it needs a
-- second factor, only those are counted who have one. Instead of somebody who is away and has named a deputy, that
-- deputy is counted, if they can decide it for them.
CREATE OR REPLACE FUNCTION th_able_left(asked question, roles text[]) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM (
        SELECT FROM membership m JOIN auth_user u ON u.id = m.user_id
        WHERE m.tenant_id = asked.tenant_id AND u.is_active AND m.role = ANY (roles)
          AND ((asked."group" = '' OR asked."group" = ANY (m.groups)) AND NOT EXISTS (
                   SELECT FROM absence s
                   WHERE s.membership_id = m.id AND s.deputy_id IS NOT NULL AND s.until > statement_timestamp())
               OR EXISTS (SELECT FROM absence s WHERE s.deputy_id = m.id AND s.until > statement_timestamp())
                  AND th_acts_for(asked.id, m.user_id) IS NOT NULL)
          AND th_barred(asked.id, m.user_id) = '' AND NOT th_voted(asked.id, m.user_id)
          AND (NOT th_needs_factor(asked.params) OR EXISTS (
                   SELECT FROM mfa_authenticator f WHERE f.user_id = m.user_id AND f.type <> 'recovery_codes'))
        LIMIT asked.quorum
    ) able
$$;

-- Whether fewer people of these roles can approve the call than still have to. False for a question that is no open
-- approval.
CREATE OR REPLACE FUNCTION th_undecidable(asked question, roles text[]) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT asked.kind = 'approval' AND asked.closed_at IS NULL AND th_able_left(asked, roles) + (
        SELECT count(*) FROM decision d WHERE d.question_id = asked.id AND d.verdict = 'approve') < asked.quorum
$$;

-- As th_stands_in, but locks the absence until the transaction ends: the person who is away comes back either before
-- the decision, which is refused then, or after it. If `absent` is null, `person` decides for themselves: true.
CREATE OR REPLACE FUNCTION th_as_deputy(asked bigint, person bigint, absent bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF absent IS NULL THEN
        RETURN true;
    END IF;
    PERFORM FROM absence s JOIN membership p ON p.id = s.membership_id
    WHERE p.user_id = absent FOR SHARE OF s;
    RETURN th_stands_in(asked, person, absent);
END $$;

-- Whether enough of the people who approved the call may still approve it: by their role, and by their group if one was
-- asked. If a deputy approved, the deputy needs the role, and the person for whom they approved needs role and group.
-- That approval counts even after the absence. True also if the rule itself let the call run, because nobody decided in
-- time (th_decide_undecided).
CREATE OR REPLACE FUNCTION th_still_approved(asked question) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT count(*) FILTER (WHERE d.verdict = 'approve') >= asked.quorum
        OR count(*) FILTER (WHERE d.verdict = 'allow') > 0
    FROM decision d
    WHERE d.question_id = asked.id AND d.verdict IN ('approve', 'allow') AND (d.door NOT IN ('web', 'api', 'slack') OR EXISTS (
        SELECT FROM membership m JOIN auth_user u ON u.id = m.user_id
        WHERE m.tenant_id = asked.tenant_id AND m.user_id = d.user_id AND u.is_active
          AND m.role IN ('approver', 'admin')
          AND (d.for_user_id IS NOT NULL OR asked."group" = '' OR asked."group" = ANY (m.groups))))
      AND (d.for_user_id IS NULL OR EXISTS (
        SELECT FROM membership m JOIN auth_user u ON u.id = m.user_id
        WHERE m.tenant_id = asked.tenant_id AND m.user_id = d.for_user_id AND u.is_active
          AND m.role IN ('approver', 'admin') AND (asked."group" = '' OR asked."group" = ANY (m.groups))))
$$;
