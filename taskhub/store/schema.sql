-- The tables, views, indexes, constraints and triggers of TaskHub, as `migrate` leaves them. Functions stand in
-- domain/*; the tables of libraries are not shown.
-- Generated and compared by tests/store/test_schema.py: TASKHUB_WRITE_SCHEMA=1 uv run pytest tests/store/test_schema.py

CREATE TABLE public.event (
    id bigint NOT NULL,
    tenant_id bigint,
    task_id bigint,
    task_version integer,
    action character varying(64) NOT NULL,
    actor character varying(255) NOT NULL,
    door character varying(8) NOT NULL,
    address character varying(64) DEFAULT ''::character varying NOT NULL,
    context_id bigint,
    user_id bigint,
    target character varying(255) DEFAULT ''::character varying NOT NULL,
    reason character varying(1024) DEFAULT ''::character varying NOT NULL,
    before jsonb,
    after jsonb,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    xid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL
)
PARTITION BY RANGE (id);

CREATE TABLE public.question (
    id bigint NOT NULL,
    key character varying(64) NOT NULL,
    upstream_key character varying(256) DEFAULT ''::character varying NOT NULL,
    kind character varying(16) NOT NULL,
    params json NOT NULL,
    definition json,
    definition_digest bytea,
    call_digest bytea,
    alike bytea,
    audience character varying(8) NOT NULL,
    "group" character varying(64) DEFAULT ''::character varying NOT NULL,
    quorum integer DEFAULT 1 NOT NULL,
    live boolean DEFAULT false NOT NULL,
    state character varying(12) DEFAULT 'open'::character varying NOT NULL,
    response text,
    error text,
    opened_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    called_at timestamp with time zone,
    closed_at timestamp with time zone,
    due_at timestamp with time zone,
    remind_at timestamp with time zone,
    reminded_at timestamp with time zone,
    handed_to_id integer,
    handed_group character varying(64) DEFAULT ''::character varying NOT NULL,
    handed_by_id integer,
    about_id bigint,
    asked_by_id integer,
    person_id integer,
    task_id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    CONSTRAINT question_about_an_approval CHECK ((((about_id IS NULL) AND (asked_by_id IS NULL) AND (person_id IS NULL)) OR ((about_id IS NOT NULL) AND (due_at IS NULL) AND ((kind)::text = 'elicitation'::text) AND (NOT live) AND ((upstream_key)::text = ''::text) AND ((audience)::text = ANY ((ARRAY['client'::character varying, 'operator'::character varying])::text[]))))),
    CONSTRAINT question_audience_known CHECK (((audience)::text = ANY ((ARRAY['client'::character varying, 'operator'::character varying, 'either'::character varying])::text[]))),
    CONSTRAINT question_closed_iff_not_open CHECK ((((closed_at IS NULL) AND ((state)::text = 'open'::text)) OR ((NOT ((state)::text = 'open'::text)) AND (closed_at IS NOT NULL)))),
    CONSTRAINT question_error_is_no_answer CHECK (((error IS NULL) OR ((state)::text = 'superseded'::text))),
    CONSTRAINT question_handed_to_one CHECK (((handed_to_id IS NULL) OR ((handed_group)::text = ''::text))),
    CONSTRAINT question_kind_known CHECK (((kind)::text = ANY ((ARRAY['elicitation'::character varying, 'sampling'::character varying, 'roots'::character varying, 'approval'::character varying, 'outcome'::character varying, 'authorization'::character varying])::text[]))),
    CONSTRAINT question_reminded_when_due CHECK (((reminded_at IS NULL) OR (remind_at IS NOT NULL))),
    CONSTRAINT question_response_iff_answered CHECK ((((response IS NOT NULL) AND ((state)::text = 'answered'::text)) OR ((NOT ((state)::text = 'answered'::text)) AND (response IS NULL)))),
    CONSTRAINT question_state_known CHECK (((state)::text = ANY ((ARRAY['open'::character varying, 'answered'::character varying, 'superseded'::character varying, 'expired'::character varying])::text[])))
);

CREATE TABLE public.task (
    id bigint NOT NULL,
    public_id character varying(64) NOT NULL,
    tool_name character varying(160) NOT NULL,
    revision character varying(32) NOT NULL,
    arguments json NOT NULL,
    arguments_digest bytea NOT NULL,
    tool_digest bytea,
    answers jsonb,
    decided jsonb,
    edited json,
    state character varying(16) DEFAULT 'queued'::character varying NOT NULL,
    message character varying(1024) DEFAULT ''::character varying NOT NULL,
    progress double precision,
    total double precision,
    result text,
    error text,
    is_error boolean DEFAULT false NOT NULL,
    ended_as character varying(16) DEFAULT ''::character varying NOT NULL,
    upstream_state text,
    lease_epoch integer DEFAULT 0 NOT NULL,
    lease_until timestamp with time zone,
    worker character varying(128) DEFAULT ''::character varying NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    max_attempts integer DEFAULT 3 NOT NULL,
    at_least_once boolean DEFAULT false NOT NULL,
    runnable_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    run_seconds integer DEFAULT 900 NOT NULL,
    cancel_requested_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    ttl_ms bigint,
    expires_at timestamp with time zone,
    poll_interval_ms integer DEFAULT 1000 NOT NULL,
    last_polled_at timestamp with time zone,
    idempotency_key character varying(255),
    client_info jsonb DEFAULT '{}'::jsonb NOT NULL,
    client_capabilities jsonb DEFAULT '{}'::jsonb NOT NULL,
    trace jsonb DEFAULT '{}'::jsonb NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    request_id text,
    progress_token text,
    handle boolean DEFAULT false NOT NULL,
    client_task_id text,
    keep_ms bigint,
    join_seconds integer,
    waiter character varying(32),
    left_at timestamp with time zone,
    context_id bigint NOT NULL,
    rerun_of_id bigint,
    session_id bigint,
    tenant_id bigint NOT NULL,
    tool_id bigint NOT NULL,
    CONSTRAINT task_decided_only_never_runs CHECK ((NOT (((revision)::text = 'approvals'::text) AND ((state)::text = ANY ((ARRAY['queued'::character varying, 'working'::character varying])::text[]))))),
    CONSTRAINT task_ended_as_fits CHECK ((((ended_as)::text = ''::text) OR (((ended_as)::text = ANY ((ARRAY['rejected'::character varying, 'expired'::character varying])::text[])) AND is_error AND ((state)::text = 'finished'::text)) OR (((ended_as)::text = ANY ((ARRAY['expired'::character varying, 'denied'::character varying])::text[])) AND ((state)::text = 'faulted'::text)))),
    CONSTRAINT task_ended_iff_terminal CHECK ((((ended_at IS NOT NULL) AND ((state)::text = ANY ((ARRAY['finished'::character varying, 'faulted'::character varying, 'cancelled'::character varying])::text[]))) OR ((NOT ((state)::text = ANY ((ARRAY['finished'::character varying, 'faulted'::character varying, 'cancelled'::character varying])::text[]))) AND (ended_at IS NULL)))),
    CONSTRAINT task_error_iff_faulted CHECK ((((error IS NOT NULL) AND ((state)::text = 'faulted'::text)) OR ((NOT ((state)::text = 'faulted'::text)) AND (error IS NULL)))),
    CONSTRAINT task_error_is_jsonrpc CHECK (((error IS NULL) OR (((jsonb_typeof(((error)::jsonb -> 'code'::text)) = 'number'::text) AND (jsonb_typeof(((error)::jsonb -> 'message'::text)) = 'string'::text)) IS TRUE))),
    CONSTRAINT task_keep_range CHECK (((keep_ms IS NULL) OR ((keep_ms >= 1000) AND (keep_ms <= '2592000000'::bigint)))),
    CONSTRAINT task_lease_only_while_held CHECK (((lease_until IS NULL) OR ((state)::text = ANY ((ARRAY['working'::character varying, 'input_required'::character varying])::text[])))),
    CONSTRAINT task_poll_interval_range CHECK (((poll_interval_ms >= 100) AND (poll_interval_ms <= 60000))),
    CONSTRAINT task_result_iff_finished CHECK ((((result IS NOT NULL) AND ((state)::text = 'finished'::text)) OR ((NOT ((state)::text = 'finished'::text)) AND (result IS NULL)))),
    CONSTRAINT task_state_known CHECK (((state)::text = ANY ((ARRAY['queued'::character varying, 'working'::character varying, 'input_required'::character varying, 'finished'::character varying, 'faulted'::character varying, 'cancelled'::character varying])::text[]))),
    CONSTRAINT task_times_in_order CHECK ((created_at <= updated_at)),
    CONSTRAINT task_ttl_range CHECK (((ttl_ms IS NULL) OR ((ttl_ms >= 1000) AND (ttl_ms <= '2592000000'::bigint))))
);

CREATE TABLE public.worker (
    id bigint NOT NULL,
    name character varying(128) NOT NULL,
    host character varying(255) NOT NULL,
    pid integer NOT NULL,
    version character varying(32) NOT NULL,
    slots integer NOT NULL,
    busy integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    heartbeat_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    stopped_at timestamp with time zone,
    in_place boolean DEFAULT false NOT NULL
);

CREATE TABLE public.auth_context (
    id bigint NOT NULL,
    issuer character varying(255) DEFAULT ''::character varying NOT NULL,
    subject character varying(255) NOT NULL,
    client_id character varying(255) DEFAULT ''::character varying NOT NULL,
    name character varying(128) NOT NULL,
    client_info jsonb DEFAULT '{}'::jsonb NOT NULL,
    client_capabilities jsonb DEFAULT '{}'::jsonb NOT NULL,
    last_seen_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    disabled_at timestamp with time zone,
    patience_ms integer,
    hub_tools boolean,
    tenant_id bigint NOT NULL,
    CONSTRAINT auth_context_patience_range CHECK (((patience_ms IS NULL) OR ((patience_ms >= 1000) AND (patience_ms <= 3600000))))
);

CREATE TABLE public.stream (
    id bigint NOT NULL,
    kind character varying(8) NOT NULL,
    request_id text DEFAULT ''::text NOT NULL,
    progress_token text,
    attach integer DEFAULT 1 NOT NULL,
    attached boolean DEFAULT true NOT NULL,
    opened_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    closed_at timestamp with time zone,
    cancelled boolean DEFAULT false NOT NULL,
    session_id bigint NOT NULL,
    task_id bigint,
    CONSTRAINT stream_kind_known CHECK (((kind)::text = ANY ((ARRAY['call'::character varying, 'wait'::character varying, 'result'::character varying, 'listen'::character varying])::text[]))),
    CONSTRAINT stream_task_unless_listen CHECK (((((kind)::text = 'listen'::text) AND (task_id IS NULL)) OR ((NOT ((kind)::text = 'listen'::text)) AND (task_id IS NOT NULL))))
);

CREATE TABLE public.server (
    id bigint NOT NULL,
    name character varying(64) NOT NULL,
    transport character varying(8) NOT NULL,
    target text NOT NULL,
    sealed_target bytea,
    credentials bytea,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    environment jsonb DEFAULT '{}'::jsonb NOT NULL,
    directory text DEFAULT ''::text NOT NULL,
    own_process boolean DEFAULT false NOT NULL,
    connect_seconds integer,
    prefix character varying(64) DEFAULT ''::character varying NOT NULL,
    review boolean DEFAULT false NOT NULL,
    by_file boolean DEFAULT false NOT NULL,
    calls_at_once integer,
    shared boolean DEFAULT false NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    disabled_reason character varying(200) DEFAULT ''::character varying NOT NULL,
    state character varying(16) DEFAULT 'unknown'::character varying NOT NULL,
    problem text DEFAULT ''::text NOT NULL,
    protocol character varying(32) DEFAULT ''::character varying NOT NULL,
    pinned character varying(10) DEFAULT ''::character varying NOT NULL,
    era character varying(9) DEFAULT ''::character varying NOT NULL,
    info jsonb DEFAULT '{}'::jsonb NOT NULL,
    capabilities jsonb DEFAULT '{}'::jsonb NOT NULL,
    incomplete text DEFAULT ''::text NOT NULL,
    catalogue_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    open_since timestamp with time zone,
    retry_at timestamp with time zone,
    probe_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    removed_at timestamp with time zone,
    tenant_id bigint NOT NULL,
    CONSTRAINT server_breaker_whole CHECK ((((failures >= 0) AND (open_since IS NULL) AND (probe_until IS NULL) AND (retry_at IS NULL)) OR ((failures > 0) AND (open_since IS NOT NULL) AND (retry_at IS NOT NULL)))),
    CONSTRAINT server_calls_at_once_range CHECK (((calls_at_once IS NULL) OR ((calls_at_once >= 1) AND (calls_at_once <= 1000)))),
    CONSTRAINT server_connect_seconds_range CHECK (((connect_seconds IS NULL) OR ((connect_seconds >= 1) AND (connect_seconds <= 120)))),
    CONSTRAINT server_environment_for_commands CHECK ((((directory = ''::text) AND (environment = '{}'::jsonb)) OR ((transport)::text = 'stdio'::text) OR own_process)),
    CONSTRAINT server_era_known CHECK (((era)::text = ANY ((ARRAY[''::character varying, 'stateless'::character varying, 'sessions'::character varying, 'sse'::character varying])::text[]))),
    CONSTRAINT server_headers_for_addresses CHECK (((headers = '{}'::jsonb) OR (NOT ((transport)::text = ANY ((ARRAY['python'::character varying, 'stdio'::character varying])::text[]))))),
    CONSTRAINT server_own_process_for_python CHECK (((NOT own_process) OR ((transport)::text = 'python'::text))),
    CONSTRAINT server_pinned_version CHECK (((pinned)::text ~ '^([0-9]{4}-[0-9]{2}-[0-9]{2}|caller)?$'::text)),
    CONSTRAINT server_reason_while_disabled CHECK ((((disabled_reason)::text = ''::text) OR (NOT enabled))),
    CONSTRAINT server_removed_keeps_no_secret CHECK (((removed_at IS NULL) OR ((credentials IS NULL) AND (NOT enabled) AND (environment = '{}'::jsonb) AND (headers = '{}'::jsonb) AND (open_since IS NULL) AND (sealed_target IS NULL) AND ((state)::text = 'disabled'::text)))),
    CONSTRAINT server_state_known CHECK (((state)::text = ANY ((ARRAY['unknown'::character varying, 'ready'::character varying, 'unreachable'::character varying, 'unauthorized'::character varying, 'disabled'::character varying])::text[]))),
    CONSTRAINT server_transport_known CHECK (((transport)::text = ANY ((ARRAY['python'::character varying, 'stdio'::character varying, 'http'::character varying])::text[])))
);

CREATE TABLE public.tool (
    id bigint NOT NULL,
    name character varying(128) NOT NULL,
    exposed_name character varying(160) NOT NULL,
    "position" integer DEFAULT 0 NOT NULL,
    definition json NOT NULL,
    digest character varying(64) NOT NULL,
    rejected text DEFAULT ''::text NOT NULL,
    hint_mode character varying(8),
    read_only boolean DEFAULT false NOT NULL,
    idempotent boolean DEFAULT false NOT NULL,
    first_seen_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    changed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    gone_at timestamp with time zone,
    confirmed_digest character varying(64) DEFAULT ''::character varying NOT NULL,
    confirmed_at timestamp with time zone,
    confirmed_by character varying(255) DEFAULT ''::character varying NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    policy_mode character varying(8),
    policy_at_least_once boolean,
    question_audience character varying(8),
    people_after_program boolean DEFAULT false NOT NULL,
    companion jsonb DEFAULT '{}'::jsonb NOT NULL,
    retry_on jsonb DEFAULT '[]'::jsonb NOT NULL,
    retry_seconds integer DEFAULT 1 NOT NULL,
    max_attempts integer DEFAULT 3 NOT NULL,
    run_seconds integer DEFAULT 900 NOT NULL,
    join_seconds integer DEFAULT 300 NOT NULL,
    server_id bigint NOT NULL,
    CONSTRAINT tool_hint_known CHECK (((hint_mode IS NULL) OR ((hint_mode)::text = ANY ((ARRAY['auto'::character varying, 'always'::character varying, 'never'::character varying, 'required'::character varying])::text[])))),
    CONSTRAINT tool_join_seconds_range CHECK (((join_seconds >= 0) AND (join_seconds <= 86400))),
    CONSTRAINT tool_max_attempts_range CHECK (((max_attempts >= 1) AND (max_attempts <= 20))),
    CONSTRAINT tool_mode_known CHECK (((policy_mode IS NULL) OR ((policy_mode)::text = ANY ((ARRAY['auto'::character varying, 'always'::character varying, 'never'::character varying, 'required'::character varying])::text[])))),
    CONSTRAINT tool_retry_seconds_range CHECK (((retry_seconds >= 1) AND (retry_seconds <= 300))),
    CONSTRAINT tool_run_seconds_range CHECK (((run_seconds >= 1) AND (run_seconds <= 86400)))
);

CREATE TABLE public.outbound (
    id bigint NOT NULL,
    step integer DEFAULT 0 NOT NULL,
    page boolean DEFAULT false NOT NULL,
    method character varying(32) NOT NULL,
    params json NOT NULL,
    state character varying(12) DEFAULT 'open'::character varying NOT NULL,
    opened_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    due_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    sent_at timestamp with time zone,
    closed_at timestamp with time zone,
    question_id bigint NOT NULL,
    stream_id bigint,
    task_id bigint NOT NULL,
    CONSTRAINT outbound_closed_iff_not_open CHECK ((((closed_at IS NULL) AND ((state)::text = ANY ((ARRAY['open'::character varying, 'offered'::character varying])::text[]))) OR ((NOT ((state)::text = ANY ((ARRAY['open'::character varying, 'offered'::character varying])::text[]))) AND (closed_at IS NOT NULL)))),
    CONSTRAINT outbound_state_known CHECK ((((state)::text = ANY ((ARRAY['open'::character varying, 'answered'::character varying, 'withdrawn'::character varying])::text[])) OR (page AND ((state)::text = ANY ((ARRAY['offered'::character varying, 'accepted'::character varying])::text[])))))
);

CREATE TABLE public.absence (
    membership_id bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    named_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    deputy_id bigint,
    CONSTRAINT absence_deputy_is_another CHECK (((deputy_id IS NULL) OR (NOT ((deputy_id = membership_id) AND (deputy_id IS NOT NULL)))))
);

CREATE TABLE public.access_token (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    prefix character varying(16) NOT NULL,
    scopes character varying(64)[] NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    last_address character varying(64) DEFAULT ''::character varying NOT NULL,
    revoked_at timestamp with time zone,
    context_id bigint NOT NULL,
    CONSTRAINT access_token_digest_is_sha256 CHECK (((octet_length(digest) = 32) IS TRUE))
);

ALTER TABLE public.access_token ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.access_token_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.application (
    id bigint NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    blocked_at timestamp with time zone,
    registration_id bigint NOT NULL,
    tenant_id bigint NOT NULL
);

ALTER TABLE public.application ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.application_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.attempt (
    id bigint NOT NULL,
    number integer NOT NULL,
    worker character varying(128) NOT NULL,
    started_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    outcome character varying(16) DEFAULT ''::character varying NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    task_id bigint NOT NULL
);

ALTER TABLE public.attempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.attempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.auth_context ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_context_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.bypass (
    id bigint NOT NULL,
    reason character varying(200) NOT NULL,
    made_by character varying(255) NOT NULL,
    began_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    server_id bigint,
    tenant_id bigint NOT NULL,
    CONSTRAINT bypass_ends_in_its_time CHECK (((ended_at IS NULL) OR ((ended_at >= began_at) AND (ended_at <= ends_at)))),
    CONSTRAINT bypass_has_a_reason CHECK ((NOT ((reason)::text = ''::text))),
    CONSTRAINT bypass_is_short CHECK (((ends_at > began_at) AND (ends_at <= (began_at + '1 day'::interval))))
);

ALTER TABLE public.bypass ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.bypass_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.code_use (
    user_id integer NOT NULL,
    step bigint DEFAULT 0 NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    tries_since timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

CREATE TABLE public.connection_test (
    id bigint NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    taken_at timestamp with time zone,
    ended_at timestamp with time zone,
    worker character varying(128) DEFAULT ''::character varying NOT NULL,
    steps jsonb DEFAULT '[]'::jsonb NOT NULL,
    server_id bigint NOT NULL,
    CONSTRAINT connection_test_worker_iff_taken CHECK ((((ended_at IS NULL) AND (steps = '[]'::jsonb) AND (taken_at IS NULL) AND ((worker)::text = ''::text)) OR ((NOT ((worker)::text = ''::text)) AND (taken_at IS NOT NULL))))
);

ALTER TABLE public.connection_test ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.connection_test_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.consent (
    id bigint NOT NULL,
    scopes character varying(64)[] NOT NULL,
    targets character varying(300)[] NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    application_id bigint NOT NULL,
    user_id integer NOT NULL,
    CONSTRAINT consent_to_something CHECK ((
CASE
    WHEN (scopes IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(scopes, 1), 0)
END > 0))
);

ALTER TABLE public.consent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.consent_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.decision (
    id bigint NOT NULL,
    actor character varying(255) NOT NULL,
    verdict character varying(16) NOT NULL,
    reason character varying(1024) DEFAULT ''::character varying NOT NULL,
    arguments_digest bytea NOT NULL,
    call_digest bytea,
    preview_digest bytea,
    second_factor character varying(16) DEFAULT ''::character varying NOT NULL,
    door character varying(8) NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    undo_until timestamp with time zone,
    context_id bigint,
    user_id integer,
    for_user_id integer,
    question_id bigint NOT NULL,
    CONSTRAINT decision_for_another CHECK (((for_user_id IS NULL) OR ((user_id IS NOT NULL) AND (NOT ((for_user_id = user_id) AND (for_user_id IS NOT NULL) AND (user_id IS NOT NULL)))))),
    CONSTRAINT decision_verdict_known CHECK (((verdict)::text = ANY ((ARRAY['approve'::character varying, 'reject'::character varying, 'allow'::character varying, 'deny'::character varying, 'accept'::character varying, 'decline'::character varying, 'cancel'::character varying, 'answer'::character varying, 'ran'::character varying, 'unrun'::character varying])::text[])))
);

ALTER TABLE public.decision ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.decision_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.deferred (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    epoch integer NOT NULL,
    server_id bigint NOT NULL,
    upstream_id character varying(256) NOT NULL,
    revision character varying(32) NOT NULL,
    home character varying(128) DEFAULT ''::character varying NOT NULL,
    session bytea,
    status character varying(16) DEFAULT 'working'::character varying NOT NULL,
    poll_ms integer DEFAULT 1000 NOT NULL,
    poll_at timestamp with time zone,
    turn integer DEFAULT 0 NOT NULL,
    ran_seconds double precision DEFAULT 0.0 NOT NULL,
    running_since timestamp with time zone,
    cancel_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT deferred_has_an_id CHECK ((NOT ((upstream_id)::text = ''::text))),
    CONSTRAINT deferred_poll_range CHECK (((poll_ms >= 100) AND (poll_ms <= 60000))),
    CONSTRAINT deferred_polled_until_over CHECK ((((poll_at IS NOT NULL) AND ((status)::text = ANY ((ARRAY['working'::character varying, 'input_required'::character varying])::text[]))) OR ((poll_at IS NULL) AND ((status)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying, 'unknown'::character varying])::text[])))))
);

ALTER TABLE public.deferred ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.deferred_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.delivery (
    id bigint NOT NULL,
    number integer NOT NULL,
    began_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    status integer,
    answer character varying(500) DEFAULT ''::character varying NOT NULL,
    problem character varying(300) DEFAULT ''::character varying NOT NULL,
    notice_id bigint NOT NULL,
    CONSTRAINT delivery_ends_after_begin CHECK (((ended_at IS NULL) OR (ended_at >= began_at)))
);

ALTER TABLE public.delivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.dismissed_proposal (
    id bigint NOT NULL,
    rule character varying(100) NOT NULL,
    approved integer NOT NULL,
    dismissed_by character varying(255) NOT NULL,
    dismissed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    context_id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    tool_id bigint NOT NULL
);

ALTER TABLE public.dismissed_proposal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.dismissed_proposal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE public.event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.event_id_seq OWNED BY public.event.id;

CREATE TABLE public.feed_consumer (
    name character varying(32) NOT NULL,
    xid bigint NOT NULL,
    event_id bigint NOT NULL,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE public.grant_request (
    id bigint NOT NULL,
    state_digest character varying(64) NOT NULL,
    session_key character varying(64) NOT NULL,
    verifier bytea NOT NULL,
    issuer text NOT NULL,
    client_id text NOT NULL,
    registered jsonb DEFAULT '{}'::jsonb NOT NULL,
    redirect_uri text NOT NULL,
    scopes text DEFAULT ''::text NOT NULL,
    back character varying(200) DEFAULT ''::character varying NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    server_id bigint NOT NULL,
    by_id integer NOT NULL,
    user_id integer,
    context_id bigint,
    CONSTRAINT grant_request_for_one CHECK (((user_id IS NULL) OR (context_id IS NULL)))
);

ALTER TABLE public.grant_request ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.grant_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE public.interest (
    id bigint NOT NULL,
    holder character varying(64) NOT NULL,
    uri text NOT NULL,
    followed_at timestamp with time zone,
    expires_at timestamp with time zone NOT NULL,
    server_id bigint NOT NULL
);

ALTER TABLE public.interest ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.interest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.learned_patience (
    id bigint NOT NULL,
    program character varying(128) NOT NULL,
    patience_ms integer NOT NULL,
    left_after_ms bigint NOT NULL,
    leaves integer NOT NULL,
    learned_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    context_id bigint NOT NULL,
    CONSTRAINT learned_patience_range CHECK (((patience_ms >= 1000) AND (patience_ms <= 3600000)))
);

ALTER TABLE public.learned_patience ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.learned_patience_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.membership (
    id bigint NOT NULL,
    role character varying(16) NOT NULL,
    groups character varying(64)[] DEFAULT '{}'::character varying(64)[] NOT NULL,
    password_due boolean DEFAULT false NOT NULL,
    granted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    governed_at timestamp with time zone,
    user_id integer NOT NULL,
    tenant_id bigint NOT NULL,
    CONSTRAINT membership_role_known CHECK (((role)::text = ANY ((ARRAY['viewer'::character varying, 'operator'::character varying, 'approver'::character varying, 'auditor'::character varying, 'admin'::character varying])::text[])))
);

ALTER TABLE public.membership ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.membership_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.news_read (
    membership_id bigint NOT NULL,
    below bigint NOT NULL,
    still_open bigint[] DEFAULT '{}'::bigint[] NOT NULL
);

CREATE TABLE public.notice (
    id bigint NOT NULL,
    public_id character varying(40) NOT NULL,
    event_id bigint,
    kind character varying(32) NOT NULL,
    channel character varying(8) NOT NULL,
    body text NOT NULL,
    message character varying(40) DEFAULT ''::character varying NOT NULL,
    state character varying(8) DEFAULT 'due'::character varying NOT NULL,
    due_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    planned_at timestamp with time zone,
    early_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    early_failures integer DEFAULT 0 NOT NULL,
    lease_until timestamp with time zone,
    problem character varying(300) DEFAULT ''::character varying NOT NULL,
    queued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    tenant_id bigint NOT NULL,
    user_id integer,
    webhook_id bigint,
    CONSTRAINT notice_has_its_receiver CHECK (((((channel)::text = 'webhook'::text) AND (user_id IS NULL) AND (webhook_id IS NOT NULL)) OR (((channel)::text = ANY ((ARRAY['apprise'::character varying, 'mail'::character varying, 'push'::character varying, 'slack'::character varying])::text[])) AND (user_id IS NOT NULL) AND (webhook_id IS NULL)))),
    CONSTRAINT notice_in_a_message CHECK ((((channel)::text = ANY ((ARRAY['apprise'::character varying, 'mail'::character varying, 'push'::character varying, 'slack'::character varying])::text[])) OR (((message)::text = ''::text) AND (NOT ((state)::text = 'skipped'::text))))),
    CONSTRAINT notice_state_fits CHECK ((((ended_at IS NULL) AND ((state)::text = 'due'::text)) OR ((ended_at IS NOT NULL) AND (lease_until IS NULL) AND ((state)::text = ANY ((ARRAY['sent'::character varying, 'failed'::character varying, 'skipped'::character varying])::text[])))))
);

CREATE TABLE public.notice_address (
    id bigint NOT NULL,
    channel character varying(8) NOT NULL,
    address character varying(254) DEFAULT ''::character varying NOT NULL,
    pending character varying(254) DEFAULT ''::character varying NOT NULL,
    name character varying(100) DEFAULT ''::character varying NOT NULL,
    sent_at timestamp with time zone,
    choices_id bigint NOT NULL,
    CONSTRAINT notice_address_channel_known CHECK (((channel)::text = ANY ((ARRAY['apprise'::character varying, 'mail'::character varying, 'push'::character varying, 'slack'::character varying])::text[]))),
    CONSTRAINT notice_address_named_if_there CHECK ((((name)::text = ''::text) OR (NOT ((address)::text = ''::text))))
);

ALTER TABLE public.notice_address ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notice_address_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.notice_choices (
    membership_id bigint NOT NULL,
    kinds character varying(32)[] DEFAULT '{}'::character varying(32)[] NOT NULL,
    pace character varying(8) DEFAULT 'soon'::character varying NOT NULL,
    daily_at time without time zone,
    quiet_from time without time zone,
    quiet_until time without time zone,
    zone character varying(64) DEFAULT 'UTC'::character varying NOT NULL,
    CONSTRAINT notice_choices_pace_known CHECK ((((daily_at IS NULL) AND ((pace)::text = 'soon'::text)) OR ((daily_at IS NOT NULL) AND ((pace)::text = 'daily'::text)))),
    CONSTRAINT notice_choices_quiet_ends CHECK ((((quiet_from IS NULL) AND (quiet_until IS NULL)) OR ((quiet_from IS NOT NULL) AND (quiet_until IS NOT NULL) AND (NOT ((quiet_from = quiet_until) AND (quiet_from IS NOT NULL) AND (quiet_until IS NOT NULL))))))
);

ALTER TABLE public.notice ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.notice_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.offer (
    id bigint NOT NULL,
    kind character varying(8) NOT NULL,
    key text NOT NULL,
    exposed_name text NOT NULL,
    "position" integer DEFAULT 0 NOT NULL,
    definition json NOT NULL,
    digest character varying(64) NOT NULL,
    rejected text DEFAULT ''::text NOT NULL,
    first_seen_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    changed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    gone_at timestamp with time zone,
    server_id bigint NOT NULL,
    CONSTRAINT offer_kind_known CHECK (((kind)::text = ANY ((ARRAY['prompt'::character varying, 'resource'::character varying, 'template'::character varying])::text[])))
);

ALTER TABLE public.offer ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.offer_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.outbound ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.outbound_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.outcome_check (
    question_id bigint NOT NULL,
    tool_name character varying(160) DEFAULT ''::character varying NOT NULL,
    arguments text,
    tries integer DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    result text,
    problem text DEFAULT ''::text NOT NULL,
    CONSTRAINT outcome_check_result_ends_it CHECK (((result IS NULL) OR (ended_at IS NOT NULL)))
);

CREATE TABLE public.permit (
    id bigint NOT NULL,
    public_id character varying(64) NOT NULL,
    arguments_digest bytea NOT NULL,
    tool_digest bytea NOT NULL,
    rules_version integer NOT NULL,
    asked boolean NOT NULL,
    issued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    redeemed_at timestamp with time zone,
    context_id bigint NOT NULL,
    tenant_id bigint NOT NULL,
    tool_id bigint NOT NULL,
    CONSTRAINT permit_digests_are_sha256 CHECK ((((octet_length(arguments_digest) = 32) AND (octet_length(tool_digest) = 32)) IS TRUE)),
    CONSTRAINT permit_expires_after_issue CHECK ((expires_at > issued_at)),
    CONSTRAINT permit_redeemed_in_its_time CHECK (((redeemed_at IS NULL) OR ((redeemed_at >= issued_at) AND (redeemed_at < expires_at))))
);

ALTER TABLE public.permit ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.permit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.preview (
    question_id bigint NOT NULL,
    tool_name character varying(160) DEFAULT ''::character varying NOT NULL,
    arguments text,
    tries integer DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    text text,
    left_out integer DEFAULT 0 NOT NULL,
    is_error boolean DEFAULT false NOT NULL,
    problem text DEFAULT ''::text NOT NULL,
    digest bytea,
    CONSTRAINT preview_digest_iff_ended CHECK ((((digest IS NULL) AND (ended_at IS NULL) AND (text IS NULL)) OR ((digest IS NOT NULL) AND (ended_at IS NOT NULL))))
);

CREATE TABLE public.push_browser (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    sealed bytea NOT NULL,
    session character varying(64) NOT NULL,
    label character varying(64) NOT NULL,
    host character varying(255) NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    used_at timestamp with time zone,
    last_message character varying(40) DEFAULT ''::character varying NOT NULL,
    choices_id bigint NOT NULL
);

ALTER TABLE public.push_browser ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.push_browser_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.question ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.question_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE public.relay (
    id bigint NOT NULL,
    method character varying(32) NOT NULL,
    params json NOT NULL,
    capabilities json NOT NULL,
    state character varying(8) DEFAULT 'waiting'::character varying NOT NULL,
    outcome json,
    worker character varying(128) DEFAULT ''::character varying NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    deadline timestamp with time zone NOT NULL,
    context_id bigint NOT NULL,
    server_id bigint NOT NULL,
    CONSTRAINT relay_method_known CHECK (((method)::text = ANY ((ARRAY['resources/read'::character varying, 'prompts/get'::character varying, 'completion/complete'::character varying])::text[]))),
    CONSTRAINT relay_outcome_iff_done CHECK ((((outcome IS NOT NULL) AND ((state)::text = 'done'::text)) OR ((NOT ((state)::text = 'done'::text)) AND (outcome IS NULL)))),
    CONSTRAINT relay_state_known CHECK (((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying, 'done'::character varying])::text[]))),
    CONSTRAINT relay_worker_iff_claimed CHECK (((((state)::text = 'waiting'::text) AND ((worker)::text = ''::text)) OR ((NOT ((state)::text = 'waiting'::text)) AND (NOT ((worker)::text = ''::text)))))
);

CREATE TABLE public.result_read (
    task_id bigint NOT NULL,
    context_id bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    count bigint NOT NULL,
    CONSTRAINT result_read_makes_sense CHECK (((count >= 1) AND (first_at <= last_at)))
);

CREATE TABLE public.rule_version (
    id bigint NOT NULL,
    number integer NOT NULL,
    rules json NOT NULL,
    digest character varying(64) NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    made_by character varying(255) NOT NULL,
    reason character varying(500) DEFAULT ''::character varying NOT NULL,
    tenant_id bigint NOT NULL,
    CONSTRAINT rule_version_number_positive CHECK ((number >= 1)),
    CONSTRAINT rule_version_rules_bounded CHECK ((((json_typeof(rules) = 'array'::text) AND (octet_length((rules)::text) <= 1048576)) IS TRUE))
);

ALTER TABLE public.rule_version ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rule_version_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.schema_state (
    one boolean DEFAULT true NOT NULL,
    version integer NOT NULL,
    works_with integer NOT NULL,
    functions text NOT NULL,
    triggers text NOT NULL,
    live text NOT NULL,
    loaded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT schema_state_one_check CHECK (one)
);

CREATE TABLE public.seal (
    id bigint NOT NULL,
    from_xid bigint NOT NULL,
    to_xid bigint NOT NULL,
    count integer NOT NULL,
    event_ids bigint[] NOT NULL,
    leaves bytea NOT NULL,
    root bytea NOT NULL,
    previous bytea NOT NULL,
    signature bytea NOT NULL,
    key_id character varying(16) NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE public.seal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.seal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.server_grant (
    id bigint NOT NULL,
    state character varying(8) DEFAULT 'good'::character varying NOT NULL,
    problem text DEFAULT ''::text NOT NULL,
    issuer text DEFAULT ''::text NOT NULL,
    client_id text DEFAULT ''::text NOT NULL,
    registered jsonb DEFAULT '{}'::jsonb NOT NULL,
    scopes text DEFAULT ''::text NOT NULL,
    access bytea,
    refresh bytea,
    expires_at timestamp with time zone,
    version integer DEFAULT 0 NOT NULL,
    refreshing_until timestamp with time zone,
    refresh_after timestamp with time zone,
    granted_by character varying(255) DEFAULT ''::character varying NOT NULL,
    granted_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    refreshed_at timestamp with time zone,
    told_at timestamp with time zone,
    server_id bigint NOT NULL,
    user_id integer,
    context_id bigint,
    CONSTRAINT server_grant_for_one CHECK (((user_id IS NULL) OR (context_id IS NULL))),
    CONSTRAINT server_grant_lapsed_keeps_no_token CHECK ((((problem = ''::text) AND ((state)::text = 'good'::text)) OR ((access IS NULL) AND (refresh IS NULL) AND (refreshing_until IS NULL) AND ((state)::text = 'lapsed'::text) AND (NOT (problem = ''::text))))),
    CONSTRAINT server_grant_state_known CHECK (((state)::text = ANY ((ARRAY['good'::character varying, 'lapsed'::character varying])::text[])))
);

ALTER TABLE public.server_grant ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.server_grant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.server ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.server_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE public.server_line (
    id bigint NOT NULL,
    worker character varying(128) NOT NULL,
    said_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    text text NOT NULL,
    server_id bigint NOT NULL
);

ALTER TABLE public.server_line ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.server_line_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.server_oauth (
    id bigint NOT NULL,
    way character varying(8) NOT NULL,
    issuer text DEFAULT ''::text NOT NULL,
    client_id text DEFAULT ''::text NOT NULL,
    client_secret bytea,
    scopes text DEFAULT ''::text NOT NULL,
    lacking text DEFAULT ''::text NOT NULL,
    found jsonb DEFAULT '{}'::jsonb NOT NULL,
    registered jsonb DEFAULT '{}'::jsonb NOT NULL,
    server_id bigint NOT NULL,
    CONSTRAINT server_oauth_client_has_credentials CHECK (((NOT ((way)::text = 'client'::text)) OR ((NOT (client_id = ''::text)) AND (client_secret IS NOT NULL)))),
    CONSTRAINT server_oauth_secret_of_a_client CHECK (((client_secret IS NULL) OR (NOT (client_id = ''::text)))),
    CONSTRAINT server_oauth_way_known CHECK (((way)::text = ANY ((ARRAY['client'::character varying, 'shared'::character varying, 'each'::character varying])::text[])))
);

ALTER TABLE public.server_oauth ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.server_oauth_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.session (
    id bigint NOT NULL,
    public_id character varying(64) NOT NULL,
    version character varying(16) NOT NULL,
    client_info jsonb DEFAULT '{}'::jsonb NOT NULL,
    client_capabilities jsonb DEFAULT '{}'::jsonb NOT NULL,
    log_level character varying(16) DEFAULT 'debug'::character varying NOT NULL,
    profile character varying(16) DEFAULT ''::character varying NOT NULL,
    resources text[] DEFAULT '{}'::text[] NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    context_id bigint NOT NULL,
    tenant_id bigint NOT NULL
);

ALTER TABLE public.session ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.session_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.sign_in (
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL,
    digest character varying(64) NOT NULL,
    user_id integer,
    CONSTRAINT sign_in_hashed CHECK (((digest)::text ~ '^[0-9a-f]{64}$'::text))
);

CREATE TABLE public.slack_card (
    notice_id bigint NOT NULL,
    call_digest character varying(64) NOT NULL,
    refused character varying(500) DEFAULT ''::character varying NOT NULL,
    message_id bigint NOT NULL,
    question_id bigint NOT NULL
);

CREATE TABLE public.slack_message (
    notice_id bigint NOT NULL,
    public_id character varying(40) NOT NULL,
    conversation character varying(32) DEFAULT ''::character varying NOT NULL,
    ts character varying(32) DEFAULT ''::character varying NOT NULL,
    more integer DEFAULT 0 NOT NULL,
    shown character varying(64) DEFAULT ''::character varying NOT NULL,
    changes integer DEFAULT 0 NOT NULL,
    look_at timestamp with time zone,
    tries integer DEFAULT 0 NOT NULL,
    CONSTRAINT slack_message_has_its_place CHECK (((((conversation)::text = ''::text) AND ((ts)::text = ''::text)) OR ((NOT ((conversation)::text = ''::text)) AND (NOT ((ts)::text = ''::text)))))
);

ALTER TABLE public.stream ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.stream_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.task ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.task_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_log (
    id bigint NOT NULL,
    level character varying(16) NOT NULL,
    text character varying(4096) NOT NULL,
    progress double precision,
    total double precision,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    task_id bigint NOT NULL
);

ALTER TABLE public.task_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.task_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.task_view AS
 SELECT id,
    public_id,
    tenant_id,
    context_id,
    revision,
    state,
    (
        CASE
            WHEN ((edited IS NOT NULL) AND ((ended_at IS NULL) OR ((state)::text = 'cancelled'::text))) THEN (public.th_edited_message(t.*))::character varying
            WHEN ((state)::text = 'queued'::text) THEN (COALESCE(( SELECT public.th_words('paused'::text, VARIADIC ARRAY[(s.name)::text]) AS th_words
               FROM (public.tool o
                 JOIN public.server s ON ((s.id = o.server_id)))
              WHERE ((o.id = t.tool_id) AND (NOT s.enabled) AND (s.removed_at IS NULL))), (message)::text))::character varying
            ELSE message
        END)::character varying(1024) AS message,
    progress,
    total,
    created_at,
    updated_at,
    ended_at,
    ttl_ms,
    poll_interval_ms,
    result,
    error,
    is_error,
    cancel_requested_at,
    version,
    tool_name,
    expires_at,
    session_id,
    progress_token,
    handle,
    client_task_id,
    keep_ms,
    join_seconds,
    left_at,
        CASE
            WHEN ((state)::text = 'input_required'::text) THEN ( SELECT json_agg(json_build_object('id', q.id, 'key', q.key, 'kind', q.kind, 'params', q.params, 'audience', q.audience, 'group', q."group", 'quorum', q.quorum, 'approvals', ( SELECT count(*) AS count
                       FROM public.decision d
                      WHERE ((d.question_id = q.id) AND ((d.verdict)::text = 'approve'::text))), 'page', (((q.audience)::text = 'operator'::text) AND ((t.client_capabilities #> '{elicitation,url}'::text[]) IS NOT NULL) AND ((t.session_id IS NOT NULL) OR (COALESCE((t.client_info ->> 'name'::text), ''::text) <> ALL (ARRAY['mcp'::text, 'fastmcp'::text]))) AND (NOT (EXISTS ( SELECT
                       FROM public.outbound o
                      WHERE ((o.question_id = q.id) AND o.page AND ((o.state)::text <> 'open'::text)))))), 'by_tool', (((q.audience)::text = 'client'::text) AND ((q.kind)::text = 'elicitation'::text) AND (COALESCE((q.params ->> 'mode'::text), ''::text) <> 'url'::text) AND ((t.waiter IS NOT NULL) OR (t.left_at IS NOT NULL)) AND (NOT COALESCE(((jsonb_typeof((t.client_capabilities -> 'elicitation'::text)) = 'object'::text) AND (((t.client_capabilities -> 'elicitation'::text) = '{}'::jsonb) OR ((t.client_capabilities -> 'elicitation'::text) ? 'form'::text))), false))), 'offered', (EXISTS ( SELECT
                       FROM public.outbound o
                      WHERE ((o.question_id = q.id) AND o.page AND ((o.state)::text = 'offered'::text))))) ORDER BY q.id) AS json_agg
               FROM public.question q
              WHERE ((q.task_id = t.id) AND ((q.state)::text = 'open'::text)))
            ELSE NULL::json
        END AS open_questions,
    ended_as
   FROM public.task t;

CREATE TABLE public.tenant (
    id bigint NOT NULL,
    slug character varying(64) NOT NULL,
    name character varying(128) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

ALTER TABLE public.tenant ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tenant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE public.timing (
    id bigint NOT NULL,
    kind character varying(16) NOT NULL,
    counts bigint[] NOT NULL,
    seconds double precision NOT NULL,
    server_id bigint NOT NULL,
    CONSTRAINT timing_counts_whole CHECK ((
CASE
    WHEN (counts IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(counts, 1), 0)
END = 17)),
    CONSTRAINT timing_kind_known CHECK (((kind)::text = ANY ((ARRAY['waited'::character varying, 'finished'::character varying, 'error'::character varying, 'asked'::character varying, 'faulted'::character varying, 'timed_out'::character varying, 'cancelled'::character varying, 'given_back'::character varying, 'lost'::character varying])::text[])))
);

ALTER TABLE public.timing ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.timing_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.token_family (
    id bigint NOT NULL,
    family uuid NOT NULL,
    code_checksum character varying(64) NOT NULL,
    scopes character varying(64)[] NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    registration_id bigint NOT NULL,
    user_id integer NOT NULL,
    CONSTRAINT token_family_hashed CHECK (((code_checksum)::text ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT token_family_of_something CHECK ((
CASE
    WHEN (scopes IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(scopes, 1), 0)
END > 0))
);

ALTER TABLE public.token_family ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.token_family_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.tool ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tool_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tool_version (
    id bigint NOT NULL,
    number integer NOT NULL,
    digest character varying(64) NOT NULL,
    definition json NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone,
    tool_id bigint NOT NULL
);

ALTER TABLE public.tool_version ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tool_version_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.upstream_session (
    id bigint NOT NULL,
    worker character varying(128) NOT NULL,
    pid integer,
    memory bigint,
    opened_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    why character varying(200) DEFAULT ''::character varying NOT NULL,
    context_id bigint NOT NULL,
    server_id bigint NOT NULL,
    CONSTRAINT upstream_session_ended_for_a_reason CHECK ((((ended_at IS NULL) AND ((why)::text = ''::text)) OR ((ended_at IS NOT NULL) AND (NOT ((why)::text = ''::text)))))
);

ALTER TABLE public.upstream_session ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.upstream_session_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.webhook (
    id bigint NOT NULL,
    name character varying(64) NOT NULL,
    sealed_url bytea NOT NULL,
    origin character varying(300) NOT NULL,
    kinds character varying(32)[] NOT NULL,
    sealed_secret bytea NOT NULL,
    sealed_secret_before bytea,
    before_until timestamp with time zone,
    enabled boolean DEFAULT true NOT NULL,
    disabled_why character varying(200) DEFAULT ''::character varying NOT NULL,
    failing_since timestamp with time zone,
    problem character varying(300) DEFAULT ''::character varying NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    context_id bigint,
    tenant_id bigint NOT NULL,
    CONSTRAINT webhook_secret_before_ends CHECK ((((before_until IS NULL) AND (sealed_secret_before IS NULL)) OR ((before_until IS NOT NULL) AND (sealed_secret_before IS NOT NULL)))),
    CONSTRAINT webhook_sends_something CHECK ((
CASE
    WHEN (kinds IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(kinds, 1), 0)
END >= 1))
);

ALTER TABLE public.webhook ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.webhook_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.worker ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.worker_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY public.event ATTACH PARTITION public.event_1 FOR VALUES FROM (MINVALUE) TO ('100000000');

ALTER TABLE ONLY public.event ALTER COLUMN id SET DEFAULT nextval('public.event_id_seq'::regclass);

ALTER TABLE ONLY public.absence
    ADD CONSTRAINT absence_pkey PRIMARY KEY (membership_id);

ALTER TABLE ONLY public.access_token
    ADD CONSTRAINT access_token_digest_unique UNIQUE (digest);

ALTER TABLE ONLY public.access_token
    ADD CONSTRAINT access_token_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.application
    ADD CONSTRAINT application_once_per_tenant UNIQUE (tenant_id, registration_id);

ALTER TABLE ONLY public.application
    ADD CONSTRAINT application_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT attempt_number_unique UNIQUE (task_id, number);

ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_context
    ADD CONSTRAINT auth_context_one_principal UNIQUE (tenant_id, issuer, subject, client_id);

ALTER TABLE ONLY public.auth_context
    ADD CONSTRAINT auth_context_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.bypass
    ADD CONSTRAINT bypass_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.code_use
    ADD CONSTRAINT code_use_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.connection_test
    ADD CONSTRAINT connection_test_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.connection_test
    ADD CONSTRAINT connection_test_server_id_key UNIQUE (server_id);

ALTER TABLE ONLY public.consent
    ADD CONSTRAINT consent_one_answer UNIQUE (application_id, user_id);

ALTER TABLE ONLY public.consent
    ADD CONSTRAINT consent_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.decision
    ADD CONSTRAINT decision_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deferred
    ADD CONSTRAINT deferred_epoch_unique UNIQUE (task_id, epoch);

ALTER TABLE ONLY public.deferred
    ADD CONSTRAINT deferred_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT delivery_number_unique UNIQUE (notice_id, number);

ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dismissed_proposal
    ADD CONSTRAINT dismissed_proposal_once UNIQUE (tenant_id, context_id, tool_id, rule);

ALTER TABLE ONLY public.dismissed_proposal
    ADD CONSTRAINT dismissed_proposal_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.feed_consumer
    ADD CONSTRAINT feed_consumer_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.grant_request
    ADD CONSTRAINT grant_request_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.grant_request
    ADD CONSTRAINT grant_request_state_digest_key UNIQUE (state_digest);

ALTER TABLE ONLY public.interest
    ADD CONSTRAINT interest_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.interest
    ADD CONSTRAINT interest_unique UNIQUE (holder, server_id, uri);

ALTER TABLE ONLY public.learned_patience
    ADD CONSTRAINT learned_patience_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.learned_patience
    ADD CONSTRAINT learned_patience_unique UNIQUE (context_id, program);

ALTER TABLE ONLY public.membership
    ADD CONSTRAINT membership_one_role UNIQUE (tenant_id, user_id);

ALTER TABLE ONLY public.membership
    ADD CONSTRAINT membership_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.news_read
    ADD CONSTRAINT news_read_pkey PRIMARY KEY (membership_id);

ALTER TABLE ONLY public.notice_address
    ADD CONSTRAINT notice_address_of_a_channel UNIQUE (choices_id, channel);

ALTER TABLE ONLY public.notice_address
    ADD CONSTRAINT notice_address_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notice_choices
    ADD CONSTRAINT notice_choices_pkey PRIMARY KEY (membership_id);

ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_once_for_a_person UNIQUE (event_id, user_id, channel);

ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_once_for_a_webhook UNIQUE (event_id, webhook_id);

ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_public_id_unique UNIQUE (public_id);

ALTER TABLE ONLY public.offer
    ADD CONSTRAINT offer_key_unique UNIQUE (server_id, kind, key);

ALTER TABLE ONLY public.offer
    ADD CONSTRAINT offer_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbound
    ADD CONSTRAINT outbound_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbound
    ADD CONSTRAINT outbound_step_once UNIQUE (question_id, page, step);

ALTER TABLE ONLY public.outcome_check
    ADD CONSTRAINT outcome_check_pkey PRIMARY KEY (question_id);

ALTER TABLE ONLY public.permit
    ADD CONSTRAINT permit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.permit
    ADD CONSTRAINT permit_public_id_unique UNIQUE (public_id);

ALTER TABLE ONLY public.preview
    ADD CONSTRAINT preview_pkey PRIMARY KEY (question_id);

ALTER TABLE ONLY public.push_browser
    ADD CONSTRAINT push_browser_digest_unique UNIQUE (digest);

ALTER TABLE ONLY public.push_browser
    ADD CONSTRAINT push_browser_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_key_once_per_task UNIQUE (task_id, key);

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.relay
    ADD CONSTRAINT relay_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.result_read
    ADD CONSTRAINT result_read_pkey PRIMARY KEY (task_id, context_id);

ALTER TABLE ONLY public.rule_version
    ADD CONSTRAINT rule_version_number_unique UNIQUE (tenant_id, number);

ALTER TABLE ONLY public.rule_version
    ADD CONSTRAINT rule_version_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.schema_state
    ADD CONSTRAINT schema_state_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.seal
    ADD CONSTRAINT seal_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.seal
    ADD CONSTRAINT seal_to_xid_key UNIQUE (to_xid);

ALTER TABLE ONLY public.server_grant
    ADD CONSTRAINT server_grant_one_for_each UNIQUE NULLS NOT DISTINCT (server_id, user_id, context_id);

ALTER TABLE ONLY public.server_grant
    ADD CONSTRAINT server_grant_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.server_line
    ADD CONSTRAINT server_line_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.server_oauth
    ADD CONSTRAINT server_oauth_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.server_oauth
    ADD CONSTRAINT server_oauth_server_id_key UNIQUE (server_id);

ALTER TABLE ONLY public.server
    ADD CONSTRAINT server_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_public_id_unique UNIQUE (public_id);

ALTER TABLE ONLY public.sign_in
    ADD CONSTRAINT sign_in_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY public.slack_card
    ADD CONSTRAINT slack_card_pkey PRIMARY KEY (notice_id);

ALTER TABLE ONLY public.slack_message
    ADD CONSTRAINT slack_message_once UNIQUE (public_id);

ALTER TABLE ONLY public.slack_message
    ADD CONSTRAINT slack_message_pkey PRIMARY KEY (notice_id);

ALTER TABLE ONLY public.stream
    ADD CONSTRAINT stream_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task_log
    ADD CONSTRAINT task_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_public_id_unique UNIQUE (public_id);

ALTER TABLE ONLY public.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenant
    ADD CONSTRAINT tenant_slug_key UNIQUE (slug);

ALTER TABLE ONLY public.timing
    ADD CONSTRAINT timing_once UNIQUE (server_id, kind);

ALTER TABLE ONLY public.timing
    ADD CONSTRAINT timing_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.token_family
    ADD CONSTRAINT token_family_code_checksum_key UNIQUE (code_checksum);

ALTER TABLE ONLY public.token_family
    ADD CONSTRAINT token_family_family_key UNIQUE (family);

ALTER TABLE ONLY public.token_family
    ADD CONSTRAINT token_family_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tool
    ADD CONSTRAINT tool_name_unique UNIQUE (server_id, name);

ALTER TABLE ONLY public.tool
    ADD CONSTRAINT tool_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tool_version
    ADD CONSTRAINT tool_version_digest_unique UNIQUE (tool_id, digest);

ALTER TABLE ONLY public.tool_version
    ADD CONSTRAINT tool_version_number_unique UNIQUE (tool_id, number);

ALTER TABLE ONLY public.tool_version
    ADD CONSTRAINT tool_version_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.upstream_session
    ADD CONSTRAINT upstream_session_once UNIQUE (server_id, context_id);

ALTER TABLE ONLY public.upstream_session
    ADD CONSTRAINT upstream_session_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_name_unique UNIQUE (tenant_id, name);

ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.worker
    ADD CONSTRAINT worker_name_key UNIQUE (name);

ALTER TABLE ONLY public.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX absence_deputy_id_fccda753 ON public.absence USING btree (deputy_id);

CREATE INDEX access_token_context_id_13ad2c15 ON public.access_token USING btree (context_id);

CREATE INDEX application_registration_id_b751f713 ON public.application USING btree (registration_id);

CREATE INDEX application_tenant_id_0bfad398 ON public.application USING btree (tenant_id);

CREATE INDEX auth_context_tenant_id_430ef527 ON public.auth_context USING btree (tenant_id);

CREATE UNIQUE INDEX bypass_one_at_a_time ON public.bypass USING btree (tenant_id) WHERE (ended_at IS NULL);

CREATE INDEX consent_application_id_4a02fb7e ON public.consent USING btree (application_id);

CREATE INDEX consent_user_id_7de67718 ON public.consent USING btree (user_id);

CREATE INDEX decision_context_id_61084668 ON public.decision USING btree (context_id);

CREATE UNIQUE INDEX decision_one_for_person ON public.decision USING btree (question_id, for_user_id) WHERE (for_user_id IS NOT NULL);

CREATE UNIQUE INDEX decision_one_per_person ON public.decision USING btree (question_id, user_id) WHERE (user_id IS NOT NULL);

CREATE INDEX decision_question_id_9b233cf0 ON public.decision USING btree (question_id);

CREATE INDEX decision_rejected ON public.decision USING btree (undo_until) WHERE ((undo_until IS NOT NULL) AND ((verdict)::text = 'reject'::text));

CREATE INDEX decision_user_id_769870b7 ON public.decision USING btree (user_id);

CREATE INDEX deferred_due ON public.deferred USING btree (server_id, poll_at) WHERE (poll_at IS NOT NULL);

CREATE UNIQUE INDEX deferred_one_polled ON public.deferred USING btree (task_id) WHERE (poll_at IS NOT NULL);

CREATE INDEX deferred_to_cancel ON public.deferred USING btree (cancel_at) WHERE (cancel_at IS NOT NULL);

CREATE INDEX event_by_task ON ONLY public.event USING btree (task_id, id) WHERE (task_id IS NOT NULL);

CREATE INDEX event_newest_by_action ON ONLY public.event USING btree (tenant_id, action, id DESC);

CREATE INDEX event_newest ON ONLY public.event USING btree (tenant_id, id DESC);

CREATE INDEX event_by_transaction ON ONLY public.event USING btree (xid, id);

CREATE INDEX feed_consumer_name_ec731fff_like ON public.feed_consumer USING btree (name varchar_pattern_ops);

CREATE INDEX grant_request_by_id_3c2a3966 ON public.grant_request USING btree (by_id);

CREATE INDEX grant_request_context_id_3aa2138e ON public.grant_request USING btree (context_id);

CREATE INDEX grant_request_server_id_37d99888 ON public.grant_request USING btree (server_id);

CREATE INDEX grant_request_state_digest_39e302a6_like ON public.grant_request USING btree (state_digest varchar_pattern_ops);

CREATE INDEX grant_request_user_id_e76d271e ON public.grant_request USING btree (user_id);

CREATE INDEX interest_server ON public.interest USING btree (server_id);

CREATE INDEX interest_server_id_02acac6a ON public.interest USING btree (server_id);

CREATE INDEX membership_tenant_id_5206de02 ON public.membership USING btree (tenant_id);

CREATE INDEX membership_user_id_3409a104 ON public.membership USING btree (user_id);

CREATE INDEX notice_age ON public.notice USING btree (queued_at);

CREATE INDEX notice_due ON public.notice USING btree (due_at) WHERE ((state)::text = 'due'::text);

CREATE INDEX notice_due_to_a_person ON public.notice USING btree (user_id, channel, due_at, id) WHERE (((state)::text = 'due'::text) AND (user_id IS NOT NULL));

CREATE INDEX notice_due_to_a_webhook ON public.notice USING btree (webhook_id, due_at, id) WHERE ((state)::text = 'due'::text);

CREATE INDEX notice_newest_of_a_person ON public.notice USING btree (user_id, channel, id DESC) WHERE (user_id IS NOT NULL);

CREATE INDEX notice_newest_of_a_webhook ON public.notice USING btree (webhook_id, id DESC);

CREATE INDEX notice_under_way ON public.notice USING btree (webhook_id) WHERE (lease_until IS NOT NULL);

CREATE INDEX offer_server_id_76d910c1 ON public.offer USING btree (server_id);

CREATE INDEX outbound_accepted ON public.outbound USING btree (stream_id) WHERE ((state)::text = 'accepted'::text);

CREATE INDEX outbound_open ON public.outbound USING btree (task_id) WHERE ((state)::text = 'open'::text);

CREATE INDEX outbound_stream_id_d4657d06 ON public.outbound USING btree (stream_id);

CREATE INDEX outbound_task_id_ea1bde75 ON public.outbound USING btree (task_id);

CREATE INDEX outcome_check_due ON public.outcome_check USING btree (next_at) WHERE (ended_at IS NULL);

CREATE INDEX permit_expiry ON public.permit USING btree (expires_at);

CREATE INDEX preview_due ON public.preview USING btree (next_at) WHERE (ended_at IS NULL);

CREATE INDEX push_browser_by_session ON public.push_browser USING btree (session);

CREATE INDEX push_browser_choices_id_41cf550b ON public.push_browser USING btree (choices_id);

CREATE INDEX question_about ON public.question USING btree (about_id) WHERE (about_id IS NOT NULL);

CREATE INDEX question_alike ON public.question USING btree (alike) WHERE ((alike IS NOT NULL) AND (closed_at IS NULL));

CREATE INDEX question_approval_closed ON public.question USING btree (tenant_id, closed_at DESC, id DESC) WHERE ((closed_at IS NOT NULL) AND ((kind)::text = 'approval'::text));

CREATE INDEX question_closed ON public.question USING btree (tenant_id, closed_at DESC, id DESC) WHERE (closed_at IS NOT NULL);

CREATE INDEX question_open ON public.question USING btree (tenant_id, opened_at) WHERE (closed_at IS NULL);

CREATE INDEX question_to_remind ON public.question USING btree (remind_at) WHERE ((closed_at IS NULL) AND (remind_at IS NOT NULL) AND (reminded_at IS NULL));

CREATE INDEX relay_context_id_0d00d933 ON public.relay USING btree (context_id);

CREATE INDEX relay_server_id_3f10b153 ON public.relay USING btree (server_id);

CREATE INDEX relay_waiting ON public.relay USING btree (server_id, created_at) WHERE ((state)::text = 'waiting'::text);

CREATE INDEX server_grant_context_id_8151b6d0 ON public.server_grant USING btree (context_id);

CREATE INDEX server_grant_user_id_4e0b581c ON public.server_grant USING btree (user_id);

CREATE INDEX server_line_of ON public.server_line USING btree (server_id, id);

CREATE UNIQUE INDEX server_name_unique ON public.server USING btree (tenant_id, name) WHERE (removed_at IS NULL);

CREATE INDEX server_tenant_id_33e7d38d ON public.server USING btree (tenant_id);

CREATE INDEX session_live ON public.session USING btree (context_id, seen_at) WHERE (ended_at IS NULL);

CREATE INDEX session_seen ON public.session USING btree (seen_at);

CREATE INDEX sign_in_digest_4d447855_like ON public.sign_in USING btree (digest varchar_pattern_ops);

CREATE INDEX sign_in_expire_date_8e8092bd ON public.sign_in USING btree (expire_date);

CREATE INDEX sign_in_user_id_26218422 ON public.sign_in USING btree (user_id);

CREATE INDEX slack_card_of_a_message ON public.slack_card USING btree (message_id);

CREATE INDEX slack_card_of_a_question ON public.slack_card USING btree (question_id);

CREATE INDEX slack_message_changed ON public.slack_message USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX stream_seen ON public.stream USING btree (seen_at);

CREATE INDEX stream_session_id_2d512fc2 ON public.stream USING btree (session_id);

CREATE INDEX stream_task_id_aaee6349 ON public.stream USING btree (task_id);

CREATE INDEX task_asking_by_session ON public.task USING btree (session_id) WHERE ((session_id IS NOT NULL) AND ((state)::text = 'input_required'::text));

CREATE INDEX task_ended ON public.task USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX task_ended_by_session ON public.task USING btree (session_id, ended_at) WHERE (session_id IS NOT NULL);

CREATE INDEX task_handed_out ON public.task USING btree (context_id, revision, expires_at) WHERE handle;

CREATE INDEX task_held ON public.task USING btree (id) WHERE ((NOT ((worker)::text = ''::text)) AND (ended_at IS NULL));

CREATE UNIQUE INDEX task_idempotency_key_unique ON public.task USING btree (context_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);

CREATE INDEX task_left ON public.task USING btree (context_id, arguments_digest) WHERE (left_at IS NOT NULL);

CREATE INDEX task_live_by_context ON public.task USING btree (context_id, arguments_digest) WHERE (ended_at IS NULL);

CREATE INDEX task_log_task_id_5afda5be ON public.task_log USING btree (task_id);

CREATE INDEX task_newest ON public.task USING btree (tenant_id, id DESC);

CREATE INDEX task_newest_by_context ON public.task USING btree (context_id, id DESC);

CREATE INDEX task_newest_by_state ON public.task USING btree (tenant_id, state, id DESC);

CREATE INDEX task_newest_ended_as ON public.task USING btree (tenant_id, ended_as, id DESC) WHERE (NOT ((ended_as)::text = ''::text));

CREATE INDEX task_newest_faulted ON public.task USING btree (tenant_id, id DESC) WHERE (((ended_as)::text = ''::text) AND ((state)::text = 'faulted'::text));

CREATE INDEX task_newest_not_fetched ON public.task USING btree (tenant_id, id DESC) WHERE ((left_at IS NOT NULL) AND ((state)::text = ANY ((ARRAY['finished'::character varying, 'faulted'::character varying])::text[])));

CREATE INDEX task_newest_with_error ON public.task USING btree (tenant_id, id DESC) WHERE (((ended_as)::text = ''::text) AND is_error AND ((state)::text = 'finished'::text));

CREATE INDEX task_rerun_of ON public.task USING btree (rerun_of_id) WHERE (rerun_of_id IS NOT NULL);

CREATE INDEX task_runnable ON public.task USING btree (runnable_at, id) WHERE ((state)::text = 'queued'::text);

CREATE INDEX task_runnable_by_tool ON public.task USING btree (context_id, tool_id, runnable_at, id) WHERE ((state)::text = 'queued'::text);

CREATE INDEX task_troubled_by_context ON public.task USING btree (context_id, state, id DESC) WHERE (is_error OR ((state)::text = ANY ((ARRAY['faulted'::character varying, 'cancelled'::character varying])::text[])));

CREATE INDEX task_unrun ON public.task USING btree (expires_at) WHERE ((state)::text = 'queued'::text);

CREATE INDEX task_waited_for ON public.task USING btree (context_id, tool_id, arguments_digest, ended_at) WHERE ((ended_at IS NOT NULL) AND (waiter IS NOT NULL));

CREATE INDEX tenant_slug_812ad82d_like ON public.tenant USING btree (slug varchar_pattern_ops);

CREATE INDEX timing_server_id_8880ab3a ON public.timing USING btree (server_id);

CREATE INDEX token_family_code_checksum_af2021db_like ON public.token_family USING btree (code_checksum varchar_pattern_ops);

CREATE INDEX token_family_registration_id_d73f201b ON public.token_family USING btree (registration_id);

CREATE INDEX token_family_user_id_460af141 ON public.token_family USING btree (user_id);

CREATE INDEX tool_server_id_7d35b1bd ON public.tool USING btree (server_id);

CREATE INDEX tool_version_tool_id_3b396b22 ON public.tool_version USING btree (tool_id);

CREATE INDEX upstream_session_context_id_220be8a1 ON public.upstream_session USING btree (context_id);

CREATE INDEX upstream_session_open ON public.upstream_session USING btree (worker) WHERE (ended_at IS NULL);

CREATE INDEX upstream_session_server_id_0c2dbd74 ON public.upstream_session USING btree (server_id);

CREATE INDEX worker_name_b0f1579c_like ON public.worker USING btree (name varchar_pattern_ops);

CREATE TRIGGER absence_guard BEFORE INSERT OR UPDATE ON public.absence FOR EACH ROW EXECUTE FUNCTION public.absence_guard();

CREATE TRIGGER auth_user_admin_disabled AFTER UPDATE OF is_active ON public.auth_user FOR EACH ROW WHEN ((old.is_active AND (NOT new.is_active))) EXECUTE FUNCTION public.auth_user_keeps_admin();

CREATE TRIGGER auth_user_announced AFTER DELETE OR UPDATE OF is_active ON public.auth_user FOR EACH STATEMENT EXECUTE FUNCTION public.announce_people();

CREATE TRIGGER auth_user_granted AFTER UPDATE OF is_active ON public.auth_user FOR EACH ROW WHEN ((new.is_active AND (NOT old.is_active))) EXECUTE FUNCTION public.auth_user_granted();

CREATE TRIGGER auth_user_signs_out AFTER UPDATE OF is_active, password ON public.auth_user FOR EACH ROW WHEN (((old.is_active IS DISTINCT FROM new.is_active) OR ((old.password)::text IS DISTINCT FROM (new.password)::text))) EXECUTE FUNCTION public.end_sign_ins();

CREATE TRIGGER bypass_guard BEFORE DELETE OR UPDATE ON public.bypass FOR EACH ROW EXECUTE FUNCTION public.bypass_guard();

CREATE TRIGGER bypass_no_truncate BEFORE TRUNCATE ON public.bypass FOR EACH STATEMENT EXECUTE FUNCTION public.append_only();

CREATE TRIGGER decision_append_only BEFORE UPDATE ON public.decision FOR EACH ROW EXECUTE FUNCTION public.append_only();

CREATE TRIGGER decision_has_factor BEFORE INSERT ON public.decision FOR EACH ROW WHEN ((((new.verdict)::text = 'approve'::text) AND ((new.second_factor)::text = ''::text))) EXECUTE FUNCTION public.decision_has_factor();

CREATE TRIGGER decision_of_deputy BEFORE INSERT ON public.decision FOR EACH ROW WHEN ((new.user_id IS NOT NULL)) EXECUTE FUNCTION public.decision_of_deputy();

CREATE TRIGGER decision_sees_preview BEFORE INSERT ON public.decision FOR EACH ROW WHEN (((new.verdict)::text = 'approve'::text)) EXECUTE FUNCTION public.decision_sees_preview();

CREATE TRIGGER decision_stays BEFORE DELETE ON public.decision FOR EACH ROW EXECUTE FUNCTION public.decision_stays();

CREATE TRIGGER deferred_answered AFTER UPDATE ON public.question FOR EACH ROW WHEN ((new.live AND ((old.state)::text = 'open'::text) AND (((new.state)::text = 'answered'::text) OR (new.error IS NOT NULL)))) EXECUTE FUNCTION public.deferred_answered();

CREATE CONSTRAINT TRIGGER deferred_ends_with_task AFTER UPDATE ON public.deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.poll_at IS NULL)) EXECUTE FUNCTION public.deferred_check();

CREATE TRIGGER deferred_follows AFTER UPDATE ON public.task FOR EACH ROW WHEN (((old.lease_until = 'infinity'::timestamp with time zone) AND ((old.lease_until IS DISTINCT FROM new.lease_until) OR ((old.state)::text <> (new.state)::text) OR (old.cancel_requested_at IS DISTINCT FROM new.cancel_requested_at)))) EXECUTE FUNCTION public.deferred_follows();

CREATE TRIGGER deferred_guard BEFORE UPDATE ON public.deferred FOR EACH ROW EXECUTE FUNCTION public.deferred_guard();

CREATE CONSTRAINT TRIGGER deferred_matches_task AFTER INSERT ON public.deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.deferred_check();

CREATE TRIGGER deferred_stays BEFORE DELETE ON public.deferred FOR EACH ROW EXECUTE FUNCTION public.goes_with_its_parent();

CREATE TRIGGER event_append_only BEFORE DELETE OR UPDATE ON public.event FOR EACH ROW EXECUTE FUNCTION public.append_only();

CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON public.event FOR EACH STATEMENT EXECUTE FUNCTION public.append_only();

CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON public.event_1 FOR EACH STATEMENT EXECUTE FUNCTION public.append_only();

CREATE TRIGGER feed_consumer_guard BEFORE UPDATE ON public.feed_consumer FOR EACH ROW EXECUTE FUNCTION public.feed_consumer_guard();

CREATE TRIGGER membership_admin_leaves AFTER DELETE ON public.membership FOR EACH ROW WHEN (((old.role)::text = 'admin'::text)) EXECUTE FUNCTION public.membership_keeps_admin();

CREATE TRIGGER membership_announced AFTER DELETE OR UPDATE ON public.membership FOR EACH STATEMENT EXECUTE FUNCTION public.announce_people();

CREATE TRIGGER membership_granted BEFORE UPDATE ON public.membership FOR EACH ROW WHEN ((((((old.role)::text IS DISTINCT FROM (new.role)::text) OR (old.groups IS DISTINCT FROM new.groups)) OR (old.tenant_id IS DISTINCT FROM new.tenant_id)) OR (old.user_id IS DISTINCT FROM new.user_id))) EXECUTE FUNCTION public.membership_granted();

CREATE TRIGGER membership_loses_admin AFTER UPDATE ON public.membership FOR EACH ROW WHEN ((((old.role)::text = 'admin'::text) AND ((((old.role)::text IS DISTINCT FROM (new.role)::text) OR (old.tenant_id IS DISTINCT FROM new.tenant_id)) OR (old.user_id IS DISTINCT FROM new.user_id)))) EXECUTE FUNCTION public.membership_keeps_admin();

CREATE TRIGGER membership_password_given BEFORE UPDATE OF password_due ON public.membership FOR EACH ROW WHEN (new.password_due) EXECUTE FUNCTION public.membership_granted();

CREATE TRIGGER membership_signs_out AFTER DELETE OR UPDATE OF tenant_id, user_id ON public.membership FOR EACH ROW EXECUTE FUNCTION public.end_sign_ins_of_member();

CREATE TRIGGER permit_guard BEFORE INSERT OR DELETE OR UPDATE ON public.permit FOR EACH ROW EXECUTE FUNCTION public.permit_guard();

CREATE TRIGGER permit_no_truncate BEFORE TRUNCATE ON public.permit FOR EACH STATEMENT EXECUTE FUNCTION public.append_only();

CREATE TRIGGER preview_guard BEFORE UPDATE ON public.preview FOR EACH ROW WHEN ((old.ended_at IS NOT NULL)) EXECUTE FUNCTION public.preview_guard();

CREATE TRIGGER preview_stays BEFORE DELETE ON public.preview FOR EACH ROW EXECUTE FUNCTION public.goes_with_its_parent();

CREATE TRIGGER push_browser_ended AFTER DELETE ON public.push_browser FOR EACH ROW EXECUTE FUNCTION public.end_push();

CREATE TRIGGER question_about_guard BEFORE INSERT ON public.question FOR EACH ROW WHEN ((new.about_id IS NOT NULL)) EXECUTE FUNCTION public.question_about_guard();

CREATE TRIGGER question_closes_asked_back AFTER UPDATE ON public.question FOR EACH ROW WHEN ((((old.kind)::text = 'approval'::text) AND (old.closed_at IS NULL) AND (new.closed_at IS NOT NULL))) EXECUTE FUNCTION public.question_closes_asked_back();

CREATE TRIGGER question_guard BEFORE UPDATE ON public.question FOR EACH ROW EXECUTE FUNCTION public.question_guard();

CREATE CONSTRAINT TRIGGER question_matches_task AFTER INSERT OR DELETE OR UPDATE ON public.question DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.input_required_check();

CREATE TRIGGER question_stays BEFORE DELETE ON public.question FOR EACH ROW EXECUTE FUNCTION public.goes_with_its_parent();

CREATE TRIGGER rule_version_append_only BEFORE DELETE OR UPDATE ON public.rule_version FOR EACH ROW EXECUTE FUNCTION public.append_only();

CREATE TRIGGER rule_version_no_truncate BEFORE TRUNCATE ON public.rule_version FOR EACH STATEMENT EXECUTE FUNCTION public.append_only();

CREATE TRIGGER seal_append_only BEFORE UPDATE ON public.seal FOR EACH ROW EXECUTE FUNCTION public.append_only();

CREATE TRIGGER seal_no_truncate BEFORE TRUNCATE ON public.seal FOR EACH STATEMENT EXECUTE FUNCTION public.append_only();

CREATE TRIGGER seal_stays AFTER DELETE ON public.seal REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.seal_stays();

CREATE TRIGGER server_guard BEFORE UPDATE ON public.server FOR EACH ROW WHEN ((old.removed_at IS NOT NULL)) EXECUTE FUNCTION public.server_guard();

CREATE TRIGGER sign_in_ended AFTER DELETE ON public.sign_in REFERENCING OLD TABLE AS ended FOR EACH STATEMENT EXECUTE FUNCTION public.announce_sign_outs();

CREATE TRIGGER sign_in_ends_browsers AFTER DELETE ON public.sign_in REFERENCING OLD TABLE AS ended FOR EACH STATEMENT EXECUTE FUNCTION public.end_browsers();

CREATE TRIGGER task_born_unedited BEFORE INSERT ON public.task FOR EACH ROW WHEN ((new.edited IS NOT NULL)) EXECUTE FUNCTION public.task_edited_guard();

CREATE CONSTRAINT TRIGGER task_born_with_questions AFTER INSERT ON public.task DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.state)::text = 'input_required'::text)) EXECUTE FUNCTION public.input_required_check();

CREATE CONSTRAINT TRIGGER task_bypassed AFTER INSERT OR UPDATE OF decided ON public.task DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.decided ? 'bypass'::text)) EXECUTE FUNCTION public.task_bypassed();

CREATE TRIGGER task_delete_guard BEFORE DELETE ON public.task FOR EACH ROW EXECUTE FUNCTION public.task_delete_guard();

CREATE TRIGGER task_edited_guard BEFORE UPDATE ON public.task FOR EACH ROW WHEN (((old.edited)::text IS DISTINCT FROM (new.edited)::text)) EXECUTE FUNCTION public.task_edited_guard();

CREATE TRIGGER task_guard BEFORE INSERT OR UPDATE ON public.task FOR EACH ROW EXECUTE FUNCTION public.task_guard();

CREATE TRIGGER task_held_guard BEFORE UPDATE ON public.task FOR EACH ROW WHEN ((((old.state)::text = 'queued'::text) AND ((new.state)::text = 'working'::text) AND (old.runnable_at > clock_timestamp()))) EXECUTE FUNCTION public.task_held_guard();

CREATE TRIGGER task_keep BEFORE UPDATE ON public.task FOR EACH ROW WHEN (((new.keep_ms IS NOT NULL) AND (old.ended_at IS NULL) AND (new.ended_at IS NOT NULL))) EXECUTE FUNCTION public.task_keep();

CREATE CONSTRAINT TRIGGER task_matches_deferred AFTER UPDATE ON public.task DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.lease_until = 'infinity'::timestamp with time zone) AND (old.lease_until IS DISTINCT FROM new.lease_until))) EXECUTE FUNCTION public.deferred_check();

CREATE CONSTRAINT TRIGGER task_matches_questions AFTER UPDATE ON public.task DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((((old.state)::text IS DISTINCT FROM (new.state)::text) AND (((old.state)::text = 'input_required'::text) OR ((new.state)::text = 'input_required'::text)))) EXECUTE FUNCTION public.input_required_check();

CREATE TRIGGER task_record AFTER UPDATE ON public.task REFERENCING OLD TABLE AS old_tasks NEW TABLE AS new_tasks FOR EACH STATEMENT EXECUTE FUNCTION public.task_record();

CREATE TRIGGER task_record_new AFTER INSERT ON public.task REFERENCING NEW TABLE AS new_tasks FOR EACH STATEMENT EXECUTE FUNCTION public.task_record();

CREATE TRIGGER task_tells_edited BEFORE UPDATE ON public.task FOR EACH ROW WHEN (((new.edited IS NOT NULL) AND (old.ended_at IS NULL) AND (new.ended_at IS NOT NULL))) EXECUTE FUNCTION public.task_tells_edited();

ALTER TABLE ONLY public.absence
    ADD CONSTRAINT absence_deputy_id_fccda753_fk_membership_id FOREIGN KEY (deputy_id) REFERENCES public.membership(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.absence
    ADD CONSTRAINT absence_membership_id_6a836b99_fk_membership_id FOREIGN KEY (membership_id) REFERENCES public.membership(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.access_token
    ADD CONSTRAINT access_token_context_id_13ad2c15_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.application
    ADD CONSTRAINT application_registration_id_b751f713_fk_oauth2_pr FOREIGN KEY (registration_id) REFERENCES public.oauth2_provider_application(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.application
    ADD CONSTRAINT application_tenant_id_0bfad398_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT attempt_task_id_e51ebc25_fk_task_id FOREIGN KEY (task_id) REFERENCES public.task(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_context
    ADD CONSTRAINT auth_context_tenant_id_430ef527_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.bypass
    ADD CONSTRAINT bypass_server_id_a3c96d39_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.bypass
    ADD CONSTRAINT bypass_tenant_id_cc846f0b_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.code_use
    ADD CONSTRAINT code_use_user_id_affebc03_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.connection_test
    ADD CONSTRAINT connection_test_server_id_8b52f5c9_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.consent
    ADD CONSTRAINT consent_application_id_4a02fb7e_fk_application_id FOREIGN KEY (application_id) REFERENCES public.application(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.consent
    ADD CONSTRAINT consent_user_id_7de67718_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.decision
    ADD CONSTRAINT decision_context_id_61084668_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.decision
    ADD CONSTRAINT decision_for_user_id_9e73822e_fk_auth_user_id FOREIGN KEY (for_user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.decision
    ADD CONSTRAINT decision_question_id_9b233cf0_fk_question_id FOREIGN KEY (question_id) REFERENCES public.question(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.decision
    ADD CONSTRAINT decision_user_id_769870b7_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.deferred
    ADD CONSTRAINT deferred_server_id_aaf6c1e1_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.deferred
    ADD CONSTRAINT deferred_task_id_81d8dcfe_fk_task_id FOREIGN KEY (task_id) REFERENCES public.task(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT delivery_notice_id_9c4babf6_fk_notice_id FOREIGN KEY (notice_id) REFERENCES public.notice(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.dismissed_proposal
    ADD CONSTRAINT dismissed_proposal_context_id_95eeb304_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.dismissed_proposal
    ADD CONSTRAINT dismissed_proposal_tenant_id_ffb1f7dd_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.dismissed_proposal
    ADD CONSTRAINT dismissed_proposal_tool_id_6e8ed626_fk_tool_id FOREIGN KEY (tool_id) REFERENCES public.tool(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.grant_request
    ADD CONSTRAINT grant_request_by_id_3c2a3966_fk_auth_user_id FOREIGN KEY (by_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.grant_request
    ADD CONSTRAINT grant_request_context_id_3aa2138e_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.grant_request
    ADD CONSTRAINT grant_request_server_id_37d99888_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.grant_request
    ADD CONSTRAINT grant_request_user_id_e76d271e_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.interest
    ADD CONSTRAINT interest_server_id_02acac6a_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.learned_patience
    ADD CONSTRAINT learned_patience_context_id_9aa42904_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.membership
    ADD CONSTRAINT membership_tenant_id_5206de02_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.membership
    ADD CONSTRAINT membership_user_id_3409a104_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.news_read
    ADD CONSTRAINT news_read_membership_id_e813727a_fk_membership_id FOREIGN KEY (membership_id) REFERENCES public.membership(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notice_address
    ADD CONSTRAINT notice_address_choices_id_62936816_fk_notice_ch FOREIGN KEY (choices_id) REFERENCES public.notice_choices(membership_id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notice_choices
    ADD CONSTRAINT notice_choices_membership_id_07c07143_fk_membership_id FOREIGN KEY (membership_id) REFERENCES public.membership(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_tenant_id_c1143374_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_user_id_d0601f46_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.notice
    ADD CONSTRAINT notice_webhook_id_9a1329f4_fk_webhook_id FOREIGN KEY (webhook_id) REFERENCES public.webhook(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.offer
    ADD CONSTRAINT offer_server_id_76d910c1_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.outbound
    ADD CONSTRAINT outbound_question_id_7c95aaa3_fk_question_id FOREIGN KEY (question_id) REFERENCES public.question(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.outbound
    ADD CONSTRAINT outbound_stream_id_d4657d06_fk_stream_id FOREIGN KEY (stream_id) REFERENCES public.stream(id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.outbound
    ADD CONSTRAINT outbound_task_id_ea1bde75_fk_task_id FOREIGN KEY (task_id) REFERENCES public.task(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.outcome_check
    ADD CONSTRAINT outcome_check_question_id_c0cc950e_fk_question_id FOREIGN KEY (question_id) REFERENCES public.question(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.permit
    ADD CONSTRAINT permit_context_id_20d96e19_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.permit
    ADD CONSTRAINT permit_tenant_id_6760d313_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.permit
    ADD CONSTRAINT permit_tool_id_78ca7fd5_fk_tool_id FOREIGN KEY (tool_id) REFERENCES public.tool(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.preview
    ADD CONSTRAINT preview_question_id_b9a131ed_fk_question_id FOREIGN KEY (question_id) REFERENCES public.question(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.push_browser
    ADD CONSTRAINT push_browser_choices_id_41cf550b_fk_notice_ch FOREIGN KEY (choices_id) REFERENCES public.notice_choices(membership_id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_about_id_6e383ea7_fk_question_id FOREIGN KEY (about_id) REFERENCES public.question(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_asked_by_id_b3ca44eb_fk_auth_user_id FOREIGN KEY (asked_by_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_handed_by_id_2bcdcae0_fk_auth_user_id FOREIGN KEY (handed_by_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_handed_to_id_2337c180_fk_auth_user_id FOREIGN KEY (handed_to_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_person_id_bb85dd17_fk_auth_user_id FOREIGN KEY (person_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_task_id_703d4710_fk_task_id FOREIGN KEY (task_id) REFERENCES public.task(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.question
    ADD CONSTRAINT question_tenant_id_dc03d1aa_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.relay
    ADD CONSTRAINT relay_context_id_0d00d933_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.relay
    ADD CONSTRAINT relay_server_id_3f10b153_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.result_read
    ADD CONSTRAINT result_read_task FOREIGN KEY (task_id) REFERENCES public.task(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.rule_version
    ADD CONSTRAINT rule_version_tenant_id_81e6c24d_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.server_grant
    ADD CONSTRAINT server_grant_context_id_8151b6d0_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.server_grant
    ADD CONSTRAINT server_grant_server_id_642758e0_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.server_grant
    ADD CONSTRAINT server_grant_user_id_4e0b581c_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.server_line
    ADD CONSTRAINT server_line_server_id_ba52f587_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.server_oauth
    ADD CONSTRAINT server_oauth_server_id_c9ca7144_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.server
    ADD CONSTRAINT server_tenant_id_33e7d38d_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_context_id_8ba793b9_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_tenant_id_781b6e0e_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.sign_in
    ADD CONSTRAINT sign_in_user_id_26218422_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.slack_card
    ADD CONSTRAINT slack_card_message_id_069c8a51_fk_slack_message_notice_id FOREIGN KEY (message_id) REFERENCES public.slack_message(notice_id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.slack_card
    ADD CONSTRAINT slack_card_notice_id_c2e4f188_fk_notice_id FOREIGN KEY (notice_id) REFERENCES public.notice(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.slack_card
    ADD CONSTRAINT slack_card_question_id_39bb2611_fk_question_id FOREIGN KEY (question_id) REFERENCES public.question(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.slack_message
    ADD CONSTRAINT slack_message_notice_id_6167f02e_fk_notice_id FOREIGN KEY (notice_id) REFERENCES public.notice(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.stream
    ADD CONSTRAINT stream_session_id_2d512fc2_fk_session_id FOREIGN KEY (session_id) REFERENCES public.session(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.stream
    ADD CONSTRAINT stream_task_id_aaee6349_fk_task_id FOREIGN KEY (task_id) REFERENCES public.task(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_context_id_ea3a7dbf_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.task_log
    ADD CONSTRAINT task_log_task_id_5afda5be_fk_task_id FOREIGN KEY (task_id) REFERENCES public.task(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_rerun_of_id_f0f8f431_fk_task_id FOREIGN KEY (rerun_of_id) REFERENCES public.task(id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_session_id_fd25165e_fk_session_id FOREIGN KEY (session_id) REFERENCES public.session(id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_tenant_id_148e90da_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_tool_id_82475f9e_fk_tool_id FOREIGN KEY (tool_id) REFERENCES public.tool(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.timing
    ADD CONSTRAINT timing_server_id_8880ab3a_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.token_family
    ADD CONSTRAINT token_family_registration_id_d73f201b_fk_oauth2_pr FOREIGN KEY (registration_id) REFERENCES public.oauth2_provider_application(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.token_family
    ADD CONSTRAINT token_family_user_id_460af141_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tool
    ADD CONSTRAINT tool_server_id_7d35b1bd_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.tool_version
    ADD CONSTRAINT tool_version_tool_id_3b396b22_fk_tool_id FOREIGN KEY (tool_id) REFERENCES public.tool(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.upstream_session
    ADD CONSTRAINT upstream_session_context_id_220be8a1_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.upstream_session
    ADD CONSTRAINT upstream_session_server_id_0c2dbd74_fk_server_id FOREIGN KEY (server_id) REFERENCES public.server(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_context_id_484d8b47_fk_auth_context_id FOREIGN KEY (context_id) REFERENCES public.auth_context(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_tenant_id_cf77e030_fk_tenant_id FOREIGN KEY (tenant_id) REFERENCES public.tenant(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
-- PostgreSQL database dump complete
