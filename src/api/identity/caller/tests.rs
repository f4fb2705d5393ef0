//! The tables of identity, row by row.

use super::*;
use crate::clock::ManualClock;
use crate::config::{Secret, Settings};
use crate::id::{CountedIds, Ids};
use jiff::Timestamp;
use serde_json::json;

const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

/// Settings under which nobody shares anything, as on a server with a key.
fn apart() -> Settings {
    Settings { api_key: "0123456789abcdef".into(), ..Settings::default() }
}

fn signing() -> Settings {
    Settings { openwebui_jwt_secret: Secret::new("hush"), ..Settings::default() }
}

/// The one place that knows how a request is put together. `path` is `-` for none.
fn ask(settings: &Settings, path: &str, headers: &[(&str, &str)], body: Value) -> Result<Caller, ApiError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::try_from(*name).expect("a name"), value.parse().expect("a value"));
    }
    let path = if path == "-" { PathScope::default() } else { PathScope::parse(path)? };
    let rules = Rules::of(settings);
    let keyless = settings.api_key().is_none();
    let access = Access::everything(path.tenant.clone(), rules.shares(keyless), !keyless);
    let body = body.as_object().expect("an object");
    let request = Request { headers: &map, access: &access, path: &path, body };
    let clock = ManualClock::at(Timestamp::from_second(1_000).expect("a time"));
    rules.caller(&request, &clock, CountedIds::default().session())
}

fn alone(headers: &[(&str, &str)], body: Value) -> Caller {
    ask(&Settings::default(), "-", headers, body).expect("valid")
}

#[track_caller]
fn user(headers: &[(&str, &str)], body: Value, expected: &str) {
    let caller = alone(headers, body);
    assert_eq!(caller.scope.user().as_str(), expected);
    assert_eq!(caller.identified, expected != "anonymous");
}

#[track_caller]
fn session(headers: &[(&str, &str)], body: Value, expected: SessionChoice) {
    assert_eq!(alone(headers, body).session, expected);
}

#[track_caller]
fn refused(headers: &[(&str, &str)], body: Value, code: &str) {
    let error = ask(&Settings::default(), "-", headers, body).expect_err("refused");
    assert!(format!("{error:?}").contains(&format!("code: {code:?}")), "{error:?}");
}

fn named(name: &str) -> SessionChoice {
    SessionChoice::Given(SessionId::named("default", name))
}

fn given(id: &str) -> SessionChoice {
    SessionChoice::Given(SessionId::parse(id).expect("a UUID"))
}

#[test]
fn the_first_that_names_a_user_wins() {
    let body = json!({"user_id": "c", "metadata": {"user_id": "d"}, "user": "e", "safety_identifier": "f"});
    user(&[("X-OpenWebUI-User-Id", "b"), ("X-User-ID", "a")], body.clone(), "a");
    user(&[("X-OpenWebUI-User-Id", "b"), ("X-User-ID", " ")], body.clone(), "b");
    user(&[], body, "c");
    user(&[], json!({"user_id": "", "metadata": {"user_id": "d"}, "user": "e"}), "d");
    user(&[], json!({"user_id": null, "metadata": null, "user": "e", "safety_identifier": "f"}), "e");
    user(&[], json!({"metadata": "text", "safety_identifier": " f "}), "f");
    user(&[], json!({"user": 42}), "42");
    user(&[], json!({}), "anonymous");
}

/// Taken for a name, a template would make one person of everybody.
#[test]
fn a_template_nobody_filled_in_is_absent() {
    user(&[("X-User-ID", "{{USER_ID}}"), ("X-OpenWebUI-User-Id", "b")], json!({}), "b");
    session(&[("X-OpenWebUI-Chat-Id", "{{CHAT_ID}}")], json!({}), SessionChoice::None);
    let caller = alone(&[("X-Recalld-Task", "{{TASK}}"), ("X-Recalld-Message-ID", "{{MESSAGE_ID}}")], json!({}));
    assert_eq!((caller.task, caller.ids), (None, MessageIds::default()));
}

#[test]
fn headers_are_settings() {
    let user_headers = serde_json::from_value(json!(["X-Who"])).expect("names");
    let session_headers = serde_json::from_value(json!(["X-Where"])).expect("names");
    let settings = Settings { user_headers, session_headers, ..Settings::default() };
    let headers = [("X-User-ID", "ann"), ("X-Who", "bob"), ("X-Session-ID", UUID), ("X-Where", "room 1")];
    let caller = ask(&settings, "-", &headers, json!({})).expect("valid");
    assert_eq!((caller.scope.user().as_str(), caller.session), ("bob", named("room 1")));
}

#[test]
fn the_first_that_names_a_session_wins() {
    let body = json!({"session_id": "c", "metadata": {"session_id": "d"}});
    let other = "11111111-1111-4111-8111-111111111111";
    session(&[("X-OpenWebUI-Chat-Id", other), ("X-Session-ID", UUID)], body.clone(), given(UUID));
    session(&[("X-OpenWebUI-Chat-Id", other), ("X-Session-ID", "")], body.clone(), given(other));
    session(&[("X-OpenWebUI-Chat-Id", "a"), ("X-Conversation-Id", "b")], body.clone(), named("a"));
    session(&[("X-Conversation-Id", "b")], body.clone(), named("b"));
    session(&[], body, named("c"));
    session(&[], json!({"metadata": {"session_id": UUID.to_uppercase()}}), given(UUID));
    session(&[], json!({}), SessionChoice::None);
}

#[test]
fn a_name_is_another_session_in_another_tenant() {
    let id = |path| ask(&apart(), path, &[("X-Conversation-Id", "a")], json!({})).expect("valid").session;
    assert_eq!(id("-"), id("default"));
    assert_ne!(id("-"), id("acme"));
}

/// Before our own header is found to be no UUID, and wherever else a session is named.
#[test]
fn temporary_chats_are_recognised_first() {
    for id in ["local:sess-1", "temporary:x", "channel:7", " local:"] {
        session(&[("X-Session-ID", id)], json!({}), SessionChoice::Temporary);
        session(&[("X-Session-ID", UUID), ("X-OpenWebUI-Chat-Id", id)], json!({}), SessionChoice::Temporary);
        session(&[("X-Session-ID", UUID), ("X-Session-ID", id)], json!({}), SessionChoice::Temporary);
        session(&[("X-Session-ID", UUID)], json!({"metadata": {"session_id": id}}), SessionChoice::Temporary);
    }
    session(&[("X-Conversation-Id", "locals")], json!({}), named("locals"));
}

#[test]
fn what_cannot_be_an_id_is_refused() {
    let long = "x".repeat(257);
    refused(&[("X-Session-ID", "support-42")], json!({}), "invalid_session_id");
    refused(&[("X-Session-ID", "{{CHAT_ID}}")], json!({}), "invalid_session_id");
    refused(&[("X-Conversation-Id", &long)], json!({}), "invalid_id");
    refused(&[], json!({"session_id": "a\nb"}), "invalid_id");
    refused(&[], json!({"session_id": ["a"]}), "invalid_id");
    refused(&[], json!({"user": {"name": "ann"}}), "invalid_id");
    refused(&[("X-User-ID", &long)], json!({}), "invalid_id");
    refused(&[("X-Recalld-Message-ID", &long)], json!({}), "invalid_id");
    refused(&[("X-Recalld-Mode", "sometimes")], json!({}), "invalid_mode");
}

/// Two strangers who name nobody share nothing on a server that others can reach.
#[test]
fn who_names_nobody_is_known_by_the_session() {
    let settings = apart();
    let there = ask(&settings, "-", &[("X-Session-ID", UUID)], json!({})).expect("valid");
    assert_eq!((there.scope.user().to_string(), there.identified), (format!("~{UUID}"), false));

    let new = ask(&settings, "-", &[], json!({})).expect("valid");
    assert_eq!(new.scope.user().to_string(), format!("~{}", new.new_session));
    assert!(new.alone);

    let ann = ask(&settings, "-", &[("X-User-ID", "ann")], json!({})).expect("valid");
    assert!(!ann.alone);
    let shared = alone(&[], json!({}));
    assert!(!shared.alone);
}

#[test]
fn a_visit_is_nobodys_but_its_own() {
    let headers = [("X-User-ID", "ann"), ("X-Session-ID", UUID)];
    let visit = ask(&Settings::default(), "acme:visit-7", &headers, json!({})).expect("valid");
    let id = SessionId::ephemeral("acme", "visit-7");
    assert_eq!(visit.session, SessionChoice::Given(id));
    assert_eq!((visit.scope.tenant().as_str(), visit.scope.user().to_string()), ("acme", format!("~{id}")));
}

#[test]
fn once_there_is_a_secret_only_a_token_names_a_user() {
    let secret = Secret::new("hush").expect("not empty");
    let until = Timestamp::from_second(1_300).expect("a time");
    let token = crate::api::sign_user("ann", &secret, until);
    let unsigned = [("X-User-ID", "mallory"), ("X-OpenWebUI-User-Id", "mallory")];
    let body = json!({"user": "mallory"});

    let signed = [unsigned[0], unsigned[1], ("X-OpenWebUI-User-Jwt", token.as_str())];
    let caller = ask(&signing(), "-", &signed, body.clone()).expect("valid");
    assert_eq!((caller.scope.user().as_str(), caller.identified), ("ann", true));
    let caller = ask(&signing(), "-", &unsigned, body.clone()).expect("valid");
    assert_eq!((caller.scope.user().as_str(), caller.identified), ("anonymous", false));

    let forged = crate::api::sign_user("ann", &Secret::new("guess").expect("not empty"), until);
    let error = ask(&signing(), "-", &[("X-OpenWebUI-User-Jwt", &forged)], body).expect_err("forged");
    assert!(format!("{error:?}").contains("status: 401"), "{error:?}");
    user(&[("X-OpenWebUI-User-Jwt", &forged), ("X-User-ID", "bob")], json!({}), "bob");
}

#[test]
fn requests_say_what_they_are() {
    let caller = alone(
        &[
            ("X-Recalld-Message-ID", "m1"),
            ("X-Recalld-User-Message-ID", "q1"),
            ("Idempotency-Key", "k1"),
            ("x-stainless-retry-count", "1"),
            ("X-Recalld-Mode", "read"),
            ("X-Recalld-Task", "title_generation"),
        ],
        json!({}),
    );
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(caller.ids, MessageIds { answer: text("m1"), question: text("q1"), idempotency_key: text("k1") });
    assert_eq!((caller.marked_as_retry, caller.mode, caller.task), (true, Some(Mode::Read), text("title_generation")));
    for count in ["0", "", "often", "-1"] {
        assert!(!alone(&[("x-stainless-retry-count", count)], json!({})).marked_as_retry, "{count}");
    }
}
