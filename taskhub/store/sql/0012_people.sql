-- A tenant that has an admin who may sign in keeps one, whoever changes what: the console, a shell or by hand.
-- SQLSTATE TH009. Functions are versioned by name and never edited after a release.

CREATE FUNCTION keep_an_admin_v1(wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- One at a time in each tenant: of two admins who lock each other out, the second finds nobody left. A change
    -- and no mere lock, so that a transaction with an older view of the rows fails instead of not noticing.
    UPDATE tenant SET name = name WHERE id = wanted;
    IF NOT EXISTS (SELECT 1 FROM membership m JOIN auth_user u ON u.id = m.user_id AND u.is_active
                   WHERE m.tenant_id = wanted AND m.role = 'admin') THEN
        RAISE EXCEPTION 'this is the only admin; make somebody else admin first' USING ERRCODE = 'TH009';
    END IF;
END $$;

CREATE FUNCTION membership_keeps_admin_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A disabled admin was no help before either.
    IF EXISTS (SELECT 1 FROM auth_user WHERE id = OLD.user_id AND is_active) THEN
        PERFORM keep_an_admin_v1(OLD.tenant_id);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER membership_loses_admin AFTER UPDATE ON membership
    FOR EACH ROW WHEN (OLD.role = 'admin' AND (OLD.role, OLD.tenant_id, OLD.user_id)
                       IS DISTINCT FROM (NEW.role, NEW.tenant_id, NEW.user_id))
    EXECUTE FUNCTION membership_keeps_admin_v1();

CREATE TRIGGER membership_admin_leaves AFTER DELETE ON membership
    FOR EACH ROW WHEN (OLD.role = 'admin') EXECUTE FUNCTION membership_keeps_admin_v1();

CREATE FUNCTION auth_user_keeps_admin_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM keep_an_admin_v1(tenant_id) FROM membership WHERE user_id = OLD.id AND role = 'admin' ORDER BY tenant_id;
    RETURN NULL;
END $$;

CREATE TRIGGER auth_user_admin_disabled AFTER UPDATE OF is_active ON auth_user
    FOR EACH ROW WHEN (OLD.is_active AND NOT NEW.is_active) EXECUTE FUNCTION auth_user_keeps_admin_v1();
