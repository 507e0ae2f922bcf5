-- Trigger: after any change of a person, by the console, a command or SQL, every process checks again what the person's
-- tokens may do.

CREATE OR REPLACE FUNCTION announce_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'p');
    RETURN NULL;
END $$;

-- Trigger of `auth_user`: ends the browser sessions of a person who is disabled or enabled, or whose password changes.
CREATE OR REPLACE FUNCTION end_sign_ins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.id;
    RETURN NULL;
END $$;

-- Trigger of `membership`: ends the browser sessions of a person who lost the role, or got a role in another tenant.
CREATE OR REPLACE FUNCTION end_sign_ins_of_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sign_in WHERE user_id = OLD.user_id;
    RETURN NULL;
END $$;

-- Trigger of `sign_in`: lets the WebSockets of persons whose sessions ended check whether they may stay open.
CREATE OR REPLACE FUNCTION announce_sign_outs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('taskhub', 'o ' || user_id)
    FROM (SELECT DISTINCT user_id FROM ended) who WHERE user_id IS NOT NULL;
    RETURN NULL;
END $$;

-- The id of the user for whom this client acts: who signed in the client, or who calls tools in the console as this
-- client. Null for other clients.
CREATE OR REPLACE FUNCTION th_user_of(client auth_context) RETURNS int LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN client.issuer IN ('taskhub/oauth', 'taskhub/console') AND client.subject ~ '^user:[0-9]{1,9}$'
                THEN substr(client.subject, 6)::int END
$$;

-- The person for whom this client acts, as rules see the person: name, role and groups. These are empty for other
-- clients, and if the person has no role any more.
CREATE OR REPLACE FUNCTION th_signed_in(client auth_context) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT jsonb_build_object('name', u.username, 'role', m.role, 'groups', m.groups)
        FROM auth_user u JOIN membership m ON m.user_id = u.id AND m.tenant_id = client.tenant_id
        WHERE u.id = th_user_of(client)
    ), '{"name": "", "role": "", "groups": []}')
$$;
