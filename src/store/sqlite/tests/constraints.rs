//! The database itself refuses what is no conversation, whoever writes it (B-P11).

use proptest::prelude::*;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params};

use super::DataFile;
use crate::store::sqlite::connect::open_writer;

/// A row of `turn` as anybody could write it.
#[derive(Debug, Clone)]
struct Row {
    session: i64,
    number: Value,
    status: String,
    role: String,
    question: Value,
    answer: Option<String>,
    extra: Option<String>,
    metadata: String,
}

impl Row {
    fn good(number: i64) -> Self {
        Self {
            session: 1,
            number: number.into(),
            status: "complete".into(),
            role: "user".into(),
            question: "how?".to_owned().into(),
            answer: Some("so".into()),
            extra: None,
            metadata: "{}".into(),
        }
    }

    fn insert(&self, db: &Connection) -> rusqlite::Result<usize> {
        let sql = "INSERT INTO turn (session, number, id, status, role, question, answer, extra, metadata, created_at,
                                     checksum)
                   VALUES (?1, ?2, randomblob(16), ?3, ?4, ?5, ?6, ?7, ?8, 0, 0)";
        let (number, question) = (&self.number, &self.question);
        db.execute(
            sql,
            params![self.session, number, self.status, self.role, question, self.answer, self.extra, self.metadata],
        )
    }
}

/// Some white space, of any kind that Unicode knows.
fn blank() -> impl Strategy<Value = String> {
    let white: Vec<char> = ('\0'..='\u{ffff}').filter(|c| c.is_whitespace()).collect();
    prop::collection::vec(prop::sample::select(white), 0..6).prop_map(|chars| chars.into_iter().collect())
}

/// Text that is no JSON object.
fn malformed() -> impl Strategy<Value = String> {
    let is_object = |text: &String| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok();
    "[\\[\\]{}\":,a-z0-9 ]{0,12}".prop_filter("an object", move |text| !is_object(text))
}

fn word_beside(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    "[a-zA-Z]{0,9}".prop_filter("a good word", move |word| !words.contains(&word.as_str()))
}

/// A good row with one thing wrong.
fn bad_row() -> impl Strategy<Value = Row> {
    let good = || Row::good(2);
    prop_oneof![
        blank().prop_map(move |text| Row { question: text.into(), ..good() }),
        Just(Row { question: Value::Null, ..good() }),
        blank().prop_map(move |text| Row { answer: Some(text), ..good() }),
        blank().prop_map(move |text| Row {
            answer: Some(text),
            extra: Some(r#"{"question":{"raw":{}}}"#.into()),
            ..good()
        }),
        Just(Row { answer: None, extra: Some(r#"{"answer":{"raw":{}}}"#.into()), ..good() }),
        (i64::MIN..=0).prop_map(move |number| Row { number: number.into(), ..good() }),
        Just(Row { number: 1.into(), ..good() }),
        Just(Row { number: Value::Null, ..good() }),
        Just(Row { number: "two".to_owned().into(), ..good() }),
        word_beside(&["pending", "complete", "partial", "failed"]).prop_map(move |status| Row { status, ..good() }),
        word_beside(&["user", "assistant", "system", "tool"]).prop_map(move |role| Row { role, ..good() }),
        malformed().prop_map(move |metadata| Row { metadata, ..good() }),
        malformed().prop_map(move |extra| Row { extra: Some(extra), ..good() }),
        (2_i64..).prop_map(move |session| Row { session, ..good() }),
    ]
}

/// A file with one session and one turn in it.
fn database() -> (DataFile, Connection) {
    let file = DataFile::new();
    let db = open_writer(&file.path).expect("a new file");
    insert_session(&db, "acme", "ann", &[1; 16], "{}", None).expect("a good session");
    Row::good(1).insert(&db).expect("a good row");
    (file, db)
}

fn insert_session(
    db: &Connection,
    tenant: &str,
    user: &str,
    id: &[u8],
    metadata: &str,
    ttl: Option<i64>,
) -> rusqlite::Result<usize> {
    let sql = "INSERT INTO session (tenant, user, id, kind, metadata, ttl, next_number, turns, created_at, updated_at,
                                    last_accessed)
               VALUES (?1, ?2, ?3, 'durable', ?4, ?5, 2, 1, 0, 0, 0)";
    db.execute(sql, params![tenant, user, id, metadata, ttl])
}

#[test]
fn b_p11_the_database_refuses_what_is_no_turn() {
    let (_file, db) = database();
    proptest!(ProptestConfig::with_cases(512), |(row in bad_row())| {
        let refused = row.insert(&db).expect_err("a bad row is refused");
        prop_assert!(refused.sqlite_error_code().is_some(), "refused by the database: {refused}");
        let rows: i64 = db.query_row("SELECT count(*) FROM turn", [], |row| row.get(0)).expect("a count");
        prop_assert_eq!(rows, 1);
    });
    Row::good(2).insert(&db).expect("a good row is still taken");
}

#[test]
fn b_p11_a_good_turn_does_not_turn_bad_by_an_update() {
    let (_file, db) = database();
    for bad in [
        "question = char(8195)",
        "answer = NULL",
        "answer = ' '",
        "number = 0",
        "status = 'done'",
        "role = 'robot'",
        "metadata = '{'",
        "extra = '[]'",
        "session = 99",
    ] {
        let refused = db.execute(&format!("UPDATE turn SET {bad}"), []).expect_err(bad);
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ConstraintViolation), "{bad}: {refused}");
    }
}

#[test]
fn b_p11_the_database_refuses_what_is_no_session() {
    let (_file, db) = database();
    for (what, refused) in [
        ("no tenant", insert_session(&db, "", "ann", &[2; 16], "{}", None)),
        ("no user", insert_session(&db, "acme", "", &[2; 16], "{}", None)),
        ("a short id", insert_session(&db, "acme", "ann", &[2; 15], "{}", None)),
        ("malformed metadata", insert_session(&db, "acme", "ann", &[2; 16], "{", None)),
        ("metadata that is no object", insert_session(&db, "acme", "ann", &[2; 16], "7", None)),
        ("a TTL of nothing", insert_session(&db, "acme", "ann", &[2; 16], "{}", Some(0))),
        ("the same again", insert_session(&db, "acme", "ann", &[1; 16], "{}", None)),
    ] {
        let refused = refused.expect_err(what);
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ConstraintViolation), "{what}: {refused}");
    }
}

#[test]
fn a_session_with_turns_cannot_vanish_beneath_them() {
    let (_file, db) = database();
    db.execute("DELETE FROM session", []).expect_err("its turns would belong to nobody");
}

#[test]
fn what_is_no_text_is_accepted_with_its_raw_form() {
    let (_file, db) = database();
    let raw = r#"{"question":{"raw":{"content":[]}},"answer":{"raw":{"tool_calls":[]}}}"#;
    let row =
        Row { question: String::new().into(), answer: Some(String::new()), extra: Some(raw.into()), ..Row::good(2) };
    row.insert(&db).expect("a picture and a call for tools say something");
}
