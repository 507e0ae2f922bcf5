-- The triggers of all tables. Before this file is loaded, all triggers that call a function of TaskHub are dropped.

CREATE TRIGGER task_guard BEFORE INSERT OR UPDATE ON task FOR EACH ROW EXECUTE FUNCTION task_guard();

CREATE TRIGGER task_born_unedited BEFORE INSERT ON task FOR EACH ROW WHEN (NEW.edited IS NOT NULL)
    EXECUTE FUNCTION task_edited_guard();

CREATE TRIGGER task_edited_guard BEFORE UPDATE ON task FOR EACH ROW
    WHEN (OLD.edited::text IS DISTINCT FROM NEW.edited::text) EXECUTE FUNCTION task_edited_guard();

CREATE TRIGGER task_tells_edited BEFORE UPDATE ON task FOR EACH ROW
    WHEN (NEW.edited IS NOT NULL AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
    EXECUTE FUNCTION task_tells_edited();

CREATE TRIGGER task_held_guard BEFORE UPDATE ON task FOR EACH ROW
    WHEN (OLD.state = 'queued' AND NEW.state = 'working' AND OLD.runnable_at > clock_timestamp())
    EXECUTE FUNCTION task_held_guard();

CREATE TRIGGER task_record_new AFTER INSERT ON task REFERENCING NEW TABLE AS new_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION task_record();

CREATE TRIGGER task_record AFTER UPDATE ON task REFERENCING OLD TABLE AS old_tasks NEW TABLE AS new_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION task_record();

CREATE TRIGGER server_guard BEFORE UPDATE ON server FOR EACH ROW WHEN (OLD.removed_at IS NOT NULL)
    EXECUTE FUNCTION server_guard();

CREATE TRIGGER question_guard BEFORE UPDATE ON question FOR EACH ROW EXECUTE FUNCTION question_guard();

CREATE TRIGGER question_about_guard BEFORE INSERT ON question FOR EACH ROW WHEN (NEW.about_id IS NOT NULL)
    EXECUTE FUNCTION question_about_guard();

CREATE TRIGGER question_closes_asked_back AFTER UPDATE ON question FOR EACH ROW
    WHEN (OLD.kind = 'approval' AND OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL)
    EXECUTE FUNCTION question_closes_asked_back();

-- Only for deferred calls (domain/tasks/deferred.sql): an update of any other task calls no function.
CREATE TRIGGER deferred_follows AFTER UPDATE ON task FOR EACH ROW
    WHEN (OLD.lease_until = 'infinity' AND (OLD.lease_until IS DISTINCT FROM NEW.lease_until OR OLD.state <> NEW.state
          OR OLD.cancel_requested_at IS DISTINCT FROM NEW.cancel_requested_at))
    EXECUTE FUNCTION deferred_follows();

CREATE TRIGGER deferred_answered AFTER UPDATE ON question FOR EACH ROW
    WHEN (NEW.live AND OLD.state = 'open' AND (NEW.state = 'answered' OR NEW.error IS NOT NULL))
    EXECUTE FUNCTION deferred_answered();

CREATE TRIGGER deferred_guard BEFORE UPDATE ON deferred FOR EACH ROW EXECUTE FUNCTION deferred_guard();

CREATE TRIGGER deferred_stays BEFORE DELETE ON deferred FOR EACH ROW EXECUTE FUNCTION goes_with_its_parent();

CREATE CONSTRAINT TRIGGER deferred_matches_task AFTER INSERT ON deferred
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deferred_check();

CREATE CONSTRAINT TRIGGER deferred_ends_with_task AFTER UPDATE ON deferred
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.poll_at IS NULL) EXECUTE FUNCTION deferred_check();

CREATE CONSTRAINT TRIGGER task_matches_deferred AFTER UPDATE ON task
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.lease_until = 'infinity' AND OLD.lease_until IS DISTINCT FROM NEW.lease_until)
    EXECUTE FUNCTION deferred_check();

CREATE CONSTRAINT TRIGGER question_matches_task AFTER INSERT OR UPDATE OR DELETE ON question
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION input_required_check();

CREATE CONSTRAINT TRIGGER task_matches_questions AFTER UPDATE ON task
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state AND (OLD.state = 'input_required' OR NEW.state = 'input_required'))
    EXECUTE FUNCTION input_required_check();

CREATE CONSTRAINT TRIGGER task_born_with_questions AFTER INSERT ON task
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'input_required')
    EXECUTE FUNCTION input_required_check();
CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION append_only();
SELECT event_part_guard(name) FROM event_parts();
CREATE TRIGGER seal_append_only BEFORE UPDATE ON seal FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER seal_stays AFTER DELETE ON seal REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION seal_stays();
CREATE TRIGGER seal_no_truncate BEFORE TRUNCATE ON seal FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TRIGGER rule_version_append_only BEFORE UPDATE OR DELETE ON rule_version
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER rule_version_no_truncate BEFORE TRUNCATE ON rule_version
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TRIGGER bypass_guard BEFORE UPDATE OR DELETE ON bypass FOR EACH ROW EXECUTE FUNCTION bypass_guard();
CREATE TRIGGER bypass_no_truncate BEFORE TRUNCATE ON bypass FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TRIGGER permit_guard BEFORE INSERT OR UPDATE OR DELETE ON permit FOR EACH ROW EXECUTE FUNCTION permit_guard();
CREATE TRIGGER permit_no_truncate BEFORE TRUNCATE ON permit FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TRIGGER decision_append_only BEFORE UPDATE ON decision FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TRIGGER decision_stays BEFORE DELETE ON decision FOR EACH ROW EXECUTE FUNCTION decision_stays();

CREATE TRIGGER decision_sees_preview BEFORE INSERT ON decision FOR EACH ROW
    WHEN (NEW.verdict = 'approve') EXECUTE FUNCTION decision_sees_preview();

CREATE TRIGGER decision_has_factor BEFORE INSERT ON decision FOR EACH ROW
    WHEN (NEW.verdict = 'approve' AND NEW.second_factor = '') EXECUTE FUNCTION decision_has_factor();

CREATE TRIGGER decision_of_deputy BEFORE INSERT ON decision FOR EACH ROW
    WHEN (NEW.user_id IS NOT NULL) EXECUTE FUNCTION decision_of_deputy();

CREATE TRIGGER absence_guard BEFORE INSERT OR UPDATE ON absence FOR EACH ROW EXECUTE FUNCTION absence_guard();

CREATE TRIGGER preview_guard BEFORE UPDATE ON preview FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION preview_guard();

CREATE TRIGGER preview_stays BEFORE DELETE ON preview FOR EACH ROW EXECUTE FUNCTION goes_with_its_parent();

CREATE TRIGGER question_stays BEFORE DELETE ON question FOR EACH ROW EXECUTE FUNCTION goes_with_its_parent();

CREATE CONSTRAINT TRIGGER task_bypassed AFTER INSERT OR UPDATE OF decided ON task
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.decided ? 'bypass') EXECUTE FUNCTION task_bypassed();

CREATE TRIGGER task_delete_guard BEFORE DELETE ON task FOR EACH ROW EXECUTE FUNCTION task_delete_guard();

CREATE TRIGGER task_keep BEFORE UPDATE ON task FOR EACH ROW
    WHEN (NEW.keep_ms IS NOT NULL AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
    EXECUTE FUNCTION task_keep();

CREATE TRIGGER auth_user_announced AFTER DELETE OR UPDATE OF is_active ON auth_user
    FOR EACH STATEMENT EXECUTE FUNCTION announce_people();

CREATE TRIGGER membership_announced AFTER DELETE OR UPDATE ON membership
    FOR EACH STATEMENT EXECUTE FUNCTION announce_people();

CREATE TRIGGER auth_user_signs_out AFTER UPDATE OF is_active, password ON auth_user
    FOR EACH ROW WHEN (OLD.is_active IS DISTINCT FROM NEW.is_active OR OLD.password IS DISTINCT FROM NEW.password)
    EXECUTE FUNCTION end_sign_ins();

CREATE TRIGGER membership_signs_out AFTER DELETE OR UPDATE OF tenant_id, user_id ON membership
    FOR EACH ROW EXECUTE FUNCTION end_sign_ins_of_member();

CREATE TRIGGER sign_in_ended AFTER DELETE ON sign_in REFERENCING OLD TABLE AS ended
    FOR EACH STATEMENT EXECUTE FUNCTION announce_sign_outs();

CREATE TRIGGER sign_in_ends_browsers AFTER DELETE ON sign_in REFERENCING OLD TABLE AS ended
    FOR EACH STATEMENT EXECUTE FUNCTION end_browsers();

CREATE TRIGGER push_browser_ended AFTER DELETE ON push_browser
    FOR EACH ROW EXECUTE FUNCTION end_push();

CREATE TRIGGER membership_granted BEFORE UPDATE ON membership
    FOR EACH ROW WHEN ((OLD.role, OLD.groups, OLD.tenant_id, OLD.user_id)
                       IS DISTINCT FROM (NEW.role, NEW.groups, NEW.tenant_id, NEW.user_id))
    EXECUTE FUNCTION membership_granted();

-- Fires when the column is set, even to the same value, because a password may be set again before the person has
-- changed it.
CREATE TRIGGER membership_password_given BEFORE UPDATE OF password_due ON membership
    FOR EACH ROW WHEN (NEW.password_due) EXECUTE FUNCTION membership_granted();

CREATE TRIGGER auth_user_granted AFTER UPDATE OF is_active ON auth_user
    FOR EACH ROW WHEN (NEW.is_active AND NOT OLD.is_active) EXECUTE FUNCTION auth_user_granted();

CREATE TRIGGER membership_loses_admin AFTER UPDATE ON membership
    FOR EACH ROW WHEN (OLD.role = 'admin' AND (OLD.role, OLD.tenant_id, OLD.user_id)
                       IS DISTINCT FROM (NEW.role, NEW.tenant_id, NEW.user_id))
    EXECUTE FUNCTION membership_keeps_admin();

CREATE TRIGGER membership_admin_leaves AFTER DELETE ON membership
    FOR EACH ROW WHEN (OLD.role = 'admin') EXECUTE FUNCTION membership_keeps_admin();

CREATE TRIGGER auth_user_admin_disabled AFTER UPDATE OF is_active ON auth_user
    FOR EACH ROW WHEN (OLD.is_active AND NOT NEW.is_active) EXECUTE FUNCTION auth_user_keeps_admin();

CREATE TRIGGER feed_consumer_guard BEFORE UPDATE ON feed_consumer FOR EACH ROW EXECUTE FUNCTION feed_consumer_guard();
