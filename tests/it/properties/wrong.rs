//! What is refused, and what the log says of what fails (B-P11, B-P12).

use std::io::Write;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::sample::select;
use recalld::clock::Clock;
use recalld::id::{Ids, RandomIds, SessionId};
use recalld::message::{Message, Role};
use recalld::review::{PastTurn, ReviewError};
use recalld::scope::{Scope, Tenant, User};
use recalld::session::{SessionSeed, TurnDraft};
use recalld::store::{Store, StoreError};
use serde_json::{Map, Value, json};

use super::for_all;
use crate::house::House;

/// What must not get into the database.
#[derive(Debug, Clone)]
enum Invalid {
    BlankQuery(String),
    BlankResponse(String),
    NoMessages,
    SameTurnTwice,
    Number(i64),
    NumberTaken,
    Status(String),
}

fn invalid() -> impl Strategy<Value = Invalid> {
    let blank = || "[ \t\r\n]{0,5}";
    prop_oneof![
        blank().prop_map(Invalid::BlankQuery),
        blank().prop_map(Invalid::BlankResponse),
        Just(Invalid::NoMessages),
        Just(Invalid::SameTurnTwice),
        (i64::MIN..=0).prop_map(Invalid::Number),
        Just(Invalid::NumberTaken),
        "[a-z]{0,8}"
            .prop_filter("no status of ours", |word| !["pending", "complete", "partial", "failed"].contains(&&**word))
            .prop_map(Invalid::Status),
    ]
}

fn past(query: &str, response: &str) -> PastTurn {
    PastTurn { query: query.into(), response: response.into(), metadata: Map::new(), created_at: None }
}

fn draft(house: &House, query: &str, response: &str) -> TurnDraft {
    let at = house.clock.now();
    let messages = vec![Message::new(Role::User, query, at), Message::new(Role::Assistant, response, at)];
    TurnDraft { id: RandomIds.turn(at), messages, metadata: Map::new(), created_at: None }
}

/// B-P11: invalid data is refused at the door, by the store and by the database itself, and nothing of it is kept.
#[test]
fn b_p11_database_constraint_compliance() {
    let house = House::open();
    let db = recalld::store::sqlite::connection(&house.data()).expect("a database");
    let scope = Scope::new(Tenant::default(), User::anonymous());
    for_all(house, invalid(), async |house, invalid| {
        let id = RandomIds.session();
        house.memory.create_session(&scope, Some(id), SessionSeed::default()).await.expect("made");
        let kept = house.memory.add_turn(&scope, id, past("q", "a")).await.expect("valid");
        let store = async |drafts| house.store.add_turns(&scope, id, Some(SessionSeed::default()), drafts).await;
        let row = |change: &str| {
            let key = id.as_uuid().as_bytes();
            db.execute(&format!("INSERT INTO turn SELECT {change} FROM turn JOIN session ON turn.session = session.key WHERE session.id = ?1"), [key])
        };
        // A row like the one that is there, with one thing changed.
        let copy = |number: &str, status: &str, question: &str, answer: &str| {
            row(&format!("NULL, turn.session, {number}, randomblob(16), '{status}', role, '{question}', '{answer}', extra, turn.metadata,
                          turn.created_at, answered_at, checksum, expires_at, superseded, block"))
        };
        match &invalid {
            Invalid::BlankQuery(blank) => {
                let refused = house.memory.add_turn(&scope, id, past(blank, "a")).await;
                prop_assert!(matches!(refused, Err(ReviewError::Text { .. })), "{:?}", refused);
                // A good turn before the bad one is not kept either.
                let refused = store(vec![draft(house, "q", "a"), draft(house, blank, "a")]).await;
                prop_assert!(matches!(refused, Err(StoreError::Refused(_))), "{:?}", refused);
                prop_assert!(copy("2", "complete", blank, "a").is_err());
            }
            Invalid::BlankResponse(blank) => {
                let refused = house.memory.add_turn(&scope, id, past("q", blank)).await;
                prop_assert!(matches!(refused, Err(ReviewError::Text { .. })), "{:?}", refused);
                prop_assert!(copy("2", "complete", "q", blank).is_err());
            }
            Invalid::NoMessages => {
                let refused = house.memory.add_messages(&scope, id, Vec::new()).await;
                prop_assert!(matches!(refused, Err(ReviewError::Nothing)), "{:?}", refused);
            }
            Invalid::SameTurnTwice => {
                let twice = TurnDraft { id: kept.id, ..draft(house, "again", "a") };
                let refused = store(vec![twice]).await;
                prop_assert!(matches!(refused, Err(StoreError::Refused(_))), "{:?}", refused);
            }
            Invalid::Number(number) => prop_assert!(copy(&number.to_string(), "complete", "q", "a").is_err()),
            Invalid::NumberTaken => prop_assert!(copy("1", "complete", "q", "a").is_err()),
            Invalid::Status(status) => prop_assert!(copy("2", status, "q", "a").is_err()),
        }
        prop_assert_eq!(house.turns(&id.to_string()).await.len(), 1, "nothing of it was kept");
        prop_assert!(copy("2", "complete", "q", "a").is_ok(), "the same row without a mistake is accepted");
        prop_assert_eq!(db.execute("DELETE FROM turn WHERE key = ?1", [db.last_insert_rowid()]), Ok(1));
        let next = house.memory.add_turn(&scope, id, past("q", "a")).await.expect("valid");
        prop_assert_eq!(next.number, 2, "a refused turn takes no number");
        Ok(())
    });
}

/// What the log says, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().expect("not poisoned"))).expect("text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A failing operation: the request, what the log calls it, and the status a client gets.
fn operation(house: &House, n: usize, session: &str, user: &str) -> (Vec<&'static str>, impl Future<Output = u16>) {
    let of = format!("/api/v1/sessions/{session}");
    let turn = json!({"query": "secret words", "response": "secret words"});
    let messages = json!([{"role": "user", "content": "secret words"}]);
    let (method, path, body, names): (_, _, _, &[&'static str]) = match n {
        0 => ("POST", "/chat".into(), json!({"query": "secret words"}), &["read_history", "store_turn", "open_turn"]),
        1 => ("POST", "/api/v1/sessions".into(), json!({ "id": session }), &["create_session"]),
        2 => ("GET", of, Value::Null, &["read_session"]),
        3 => ("PATCH", of, json!({"metadata": {"x": 1}}), &["update_session", "read_session"]),
        4 => ("DELETE", of, Value::Null, &["delete_session"]),
        5 => ("GET", of + "/turns", Value::Null, &["read_turns"]),
        6 => ("POST", of + "/turns", turn, &["store_turn", "read_session"]),
        7 => ("GET", of + "/messages", Value::Null, &["read_turns", "read_messages"]),
        8 => ("POST", of + "/messages", messages, &["add_messages", "read_session"]),
        _ => ("GET", of + "/context", Value::Null, &["read_history"]),
    };
    let asked = house.ask(method, &path).user(user).session(session).json(body);
    (names.to_vec(), async { asked.await.status })
}

/// B-P12: every failure of the store is logged with session, user, operation and cause, and without the user's words.
#[test]
fn b_p12_error_logging_with_context() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
    // The runtime of these cases runs on this thread, so their log comes here and no other test's does.
    let _listening = tracing::subscriber::set_default(subscriber);
    let cause = select(vec![
        StoreError::Full("no space left".into()),
        StoreError::Disk("unplugged".into()),
        StoreError::Refused("a rule of the database".into()),
    ]);
    let strategy = (0..10_usize, cause, "[a-z@.]{1,20}", any::<u128>());
    for_all(House::open(), strategy, async |house, (n, cause, user, bits)| {
        let session = SessionId::from_uuid(uuid::Uuid::from_u128(bits)).to_string();
        house.flaky.fail(Some(cause.clone()));
        log.take();
        let (names, asked) = operation(house, n, &session, &user);
        let status = asked.await;
        let log = log.take();
        house.flaky.fail(None);
        house.store.flush().await;
        prop_assert!(status >= 400 || n == 0, "only chat goes on: {} answered {}", n, status);
        let told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|line| {
            let fields = &line["fields"];
            fields["session.id"] == session
                && fields["user.id"] == user
                && names.iter().any(|name| fields["operation"] == *name)
                && fields["error"].as_str().is_some_and(|error| error.contains(&cause.to_string()))
                && matches!(line["level"].as_str(), Some("ERROR" | "WARN"))
        });
        prop_assert!(told.is_some(), "{:?} with {} is not in the log:\n{}", names, cause, log);
        prop_assert!(!log.contains("secret words"), "the user's words are in the log:\n{}", log);
        Ok(())
    });
}
