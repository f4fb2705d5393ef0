//! Reads that must stay fast walk an index and sort nothing, with statistics and without.

use rusqlite::Connection;

use super::DataFile;
use crate::store::Todo;
use crate::store::sqlite::connect::open_writer;
use crate::store::sqlite::{archive, episode, facts, let_go, recall, session, sql, topics, turn};

#[track_caller]
fn check(sql: &str, expected: &str) {
    check_each(sql, |plan| assert_eq!(plan, expected));
}

/// Looks at the plan in an empty file, in a full one, and with statistics about it.
#[track_caller]
fn check_each(sql: &str, check: impl Fn(&str)) {
    let file = DataFile::new();
    let db = open_writer(&file.path).expect("a new file");
    check(&plan(&db, sql));
    fill(&db);
    check(&plan(&db, sql));
    db.execute_batch("ANALYZE").expect("statistics");
    let db = open_writer(&file.path).expect("the same file");
    check(&plan(&db, sql));
}

/// The steps of the plan, without the parts that vary.
fn plan(db: &Connection, sql: &str) -> String {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
    let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
    steps.collect::<Result<Vec<_>, _>>().expect("a plan").join("; ")
}

/// Few users with many sessions, one of them very long, most turns following the server's TTL.
fn fill(db: &Connection) {
    db.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
         INSERT INTO session (tenant, user, id, kind, metadata, next_number, turns, created_at, updated_at, last_accessed)
         SELECT 'acme', 'user ' || (i % 3), randomblob(16), 'durable', '{}', 1, i % 2, i, i, i FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO turn (session, number, id, status, role, question, answer, metadata, created_at, checksum, expires_at)
         SELECT iif(i % 2, 1, 1 + i % 300), i, randomblob(16), iif(i % 50, 'complete', 'pending'), 'user', 'how?', 'so',
                '{}', i, 0, iif(i % 10, NULL, i) FROM n;",
    )
    .expect("rows");
}

#[test]
fn the_last_turns_are_read_from_the_front_of_their_index() {
    check(&turn::recent_sql(), "SEARCH turn USING INDEX turn_by_number (session=?)");
}

#[test]
fn pages_of_turns_are_read_along_their_index() {
    check(&turn::list_sql(), "SEARCH turn USING INDEX turn_by_number (session=? AND number>?)");
}

#[test]
fn a_turn_is_found_by_its_id() {
    check_each(&turn::find_sql(), |plan| {
        assert!(plan.contains("SEARCH turn USING INDEX turn_by_id (id=?") && !plan.contains("SCAN"), "{plan}");
    });
}

#[test]
fn old_turns_are_read_from_the_front_of_their_indexes() {
    check(&let_go::old_turns_sql("created_at"), "SEARCH turn USING INDEX turn_by_age (created_at<?)");
    check(
        &let_go::old_turns_sql("expires_at"),
        "SEARCH turn USING INDEX turn_by_expiry (expires_at>? AND expires_at<?)",
    );
}

#[test]
fn unused_sessions_are_read_from_their_index() {
    check(
        let_go::IDLE_SESSIONS,
        "SEARCH session USING INTEGER PRIMARY KEY (rowid=?); LIST SUBQUERY 1; SCAN session USING INDEX session_empty; \
         SEARCH block USING COVERING INDEX block_by_session (session=?); SEARCH turn USING COVERING INDEX turn_by_number (session=?)",
    );
}

#[test]
fn a_users_sessions_are_read_along_their_index() {
    check(&session::list_sql(), "SEARCH session USING INDEX session_by_user (tenant=? AND user=? AND key>?)");
}

#[test]
fn the_next_job_is_at_the_front_of_its_index() {
    check(sql::FIRST_DUE, "SEARCH job USING INDEX job_by_time (run_at<?)");
}

/// Text that may move is looked for among some numbers, not among all.
#[test]
fn text_that_may_move_is_read_along_its_index() {
    let along = "SEARCH turn USING INDEX turn_by_number (session=? AND number>? AND number<?)";
    check_each(&archive::movable_sql(), |plan| {
        assert!(plan.starts_with(along) && !plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
    });
}

/// A digest looks at the episodes it needs, however many its session has.
#[test]
fn episodes_are_read_along_their_indexes() {
    let of = |rest: &str| format!("SELECT id FROM episode {rest}");
    check(&of(episode::STALE), "SEARCH episode USING INDEX episode_stale (session_key=? AND level=?)");
    check_each(&of(episode::OF_AN_HOUR), |plan| {
        let along =
            "SEARCH episode USING INDEX episode_by_time (session_key=? AND level=? AND begun_at>? AND begun_at<?)";
        assert!(plan.starts_with(along), "{plan}");
    });
}

/// Loading a scope reads no turns: the index has their keys, and what is derived lies beside.
#[test]
fn what_recall_keeps_is_read_without_the_turns() {
    for (sql, sessions) in [
        (recall::later_sessions_sql(), "SEARCH session USING INDEX session_by_user (tenant=? AND user=? AND key>?)"),
        (recall::rest_of_session_sql(), "SEARCH session USING INTEGER PRIMARY KEY (rowid=?)"),
    ] {
        check_each(&sql, |plan| {
            assert!(plan.starts_with(sessions), "{plan}");
            assert!(plan.contains("SEARCH turn USING COVERING INDEX turn_by_number (session=?"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
        });
    }
}

#[test]
fn what_is_to_be_made_is_read_from_its_list() {
    for what in [Todo::Row, Todo::Vector] {
        check_each(&recall::todo_sql(what), |plan| {
            let along = "SEARCH due USING INTEGER PRIMARY KEY (rowid>?);";
            assert!(plan.starts_with(along) && !plan.contains("TEMP B-TREE"), "{plan}");
            assert!(plan.contains("SEARCH turn USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
        });
    }
    check_each(&recall::entry_sql(), |plan| {
        assert!(plan.starts_with("SEARCH turn USING INDEX turn_by_id (id=?") && !plan.contains("SCAN"), "{plan}");
    });
}

/// What was found is read by its ids.
#[test]
fn turns_are_looked_up_along_their_index() {
    check_each(&recall::turns_by_id_sql(), |plan| {
        assert!(plan.starts_with("SEARCH turn USING INDEX turn_by_id (id=?") && !plan.contains("SCAN"), "{plan}");
    });
}

/// A question looks at the topics of its user and the end of its conversation, whatever else there is.
#[test]
fn topics_are_read_along_their_indexes() {
    check(topics::LIVE, "SEARCH topic USING COVERING INDEX topic_live (tenant=? AND user=?)");
    for (sql, first) in [
        (
            topics::CURRENT.to_owned(),
            "CO-ROUTINE turn; SEARCH turn USING INDEX turn_by_number (session=? AND number<?)",
        ),
        (topics::tell::FIRST_DUE.to_owned(), "SEARCH topic USING INDEX topic_to_tell (tenant=? AND user=?)"),
        (topics::list_sql(), "SEARCH topic USING INDEX topic_by_user (tenant=? AND user=? AND key>?)"),
        (
            topics::turns_sql("> ?2", "ASC"),
            "SEARCH topic_turn USING COVERING INDEX topic_turn_by_topic (topic=? AND turn>?)",
        ),
        (
            topics::turns_sql("< ?2", "DESC"),
            "SEARCH topic_turn USING COVERING INDEX topic_turn_by_topic (topic=? AND turn<?)",
        ),
    ] {
        check_each(&sql, |plan| assert!(plan.starts_with(first), "{plan}"));
    }
}

/// A question reads what is known about its user, and what its messages say that is no longer so, along indexes.
#[test]
fn facts_are_read_along_their_indexes() {
    let held = format!("SELECT value FROM fact INDEXED BY fact_active {}", facts::HELD);
    check_each(&held, |plan| {
        assert!(plan.starts_with("SEARCH fact USING INDEX fact_active (tenant=? AND user=?)"), "{plan}");
    });
    check_each(facts::SOME_OUTDATED, |plan| {
        assert!(plan.contains("fact_over (tenant=? AND user=?)") && !plan.contains("SCAN fact"), "{plan}");
    });
    for (stated, index) in [
        (facts::BY_MESSAGE, "fact_statement_by_message (tenant=? AND user=? AND message=?)"),
        (facts::BY_SESSION, "fact_statement_by_session (tenant=? AND user=? AND session=?)"),
    ] {
        check_each(&facts::outdated_sql(stated), |plan| {
            let first = format!("SEARCH said USING INDEX {index}");
            assert!(plan.starts_with(&first) && !plan.contains("SCAN"), "{plan}");
        });
    }
}
