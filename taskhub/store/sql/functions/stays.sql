-- For processes of the release before, until they are restarted: what is called there and no longer here.
-- Goes, with a line in gone.sql, in the release after.

CREATE OR REPLACE FUNCTION claim_tasks_v3(p_worker text, p_limit int, p_lease_seconds float8, p_per_context int,
                                          p_share int, p_since timestamptz, p_who text)
RETURNS TABLE (id bigint, public_id text, epoch int, tenant_id bigint, server_id bigint, server_name text,
               tool_id bigint, upstream_tool text, arguments text, answers text, upstream_state text,
               client_capabilities text, trace text, question_audience text, run_seconds int, given text,
               server_enabled boolean, r_more boolean, r_since timestamptz, r_skipped boolean, r_held_back bigint[])
LANGUAGE sql AS $$
    SELECT c.id, c.public_id, c.epoch, c.tenant_id, c.server_id, c.server_name, c.tool_id, c.upstream_tool, c.arguments,
           c.answers, c.upstream_state, c.client_capabilities, c.trace, c.question_audience, c.run_seconds, c.given,
           c.server_enabled, c.r_more, c.r_since, c.r_skipped, c.r_held_back
    FROM claim_tasks_v5(p_worker, p_limit, p_lease_seconds, p_per_context, p_share, '{}', '{}', p_since, p_who) c
$$;
