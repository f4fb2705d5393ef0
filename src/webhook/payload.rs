//! What is told of a session that ended, and the id it is told by.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::session::{EndedMessage, EndedSummary, SessionEnd};

/// The name space of the ids. It must never change: a receiver knows by the id what it has seen.
const ENDS: Uuid = Uuid::from_u128(0x2b0d_4f5a_91c7_4e06_8d3b_7ae1_54c9_f012);

/// The `webhook-id` of an end: the same whenever the same end is told, by whoever and however often.
pub fn webhook_id(end: &SessionEnd) -> String {
    let last = end.messages.iter().map(|message| message.created_at).max().unwrap_or(end.created_at);
    let parts = [
        end.tenant.as_str(),
        end.user.as_ref().map_or("", |user| user.as_str()),
        &end.session,
        &end.created_at.as_microsecond().to_string(),
        &end.message_count.to_string(),
        &last.as_microsecond().to_string(),
    ];
    format!("msg_{}", Uuid::new_v5(&ENDS, parts.join("\0").as_bytes()).simple())
}

/// The body, told at this time. Times are RFC 3339 in UTC.
pub fn body(end: &SessionEnd, at: Timestamp) -> Bytes {
    let mut data = Map::new();
    data.insert("tenant_id".into(), end.tenant.as_str().into());
    data.insert("user_id".into(), end.user.as_ref().map_or(Value::Null, |user| user.as_str().into()));
    data.insert("session_id".into(), end.session.as_str().into());
    data.insert("reason".into(), end.reason.as_str().into());
    data.insert("created_at".into(), time(end.created_at));
    data.insert("last_accessed".into(), time(end.last_accessed));
    data.insert("message_count".into(), end.message_count.into());
    data.insert("messages".into(), end.messages.iter().map(message).collect());
    data.insert("summaries".into(), end.summaries.iter().map(summary).collect());
    let all = json!({"type": "session.ended", "timestamp": time(at), "data": data});
    Bytes::from(all.to_string())
}

fn message(said: &EndedMessage) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), said.role.as_str().into());
    if let Some(name) = &said.name {
        message.insert("name".into(), name.as_str().into());
    }
    message.insert("content".into(), said.content.as_str().into());
    message.insert("created_at".into(), time(said.created_at));
    Value::Object(message)
}

fn summary(told: &EndedSummary) -> Value {
    json!({"from": time(told.from), "to": time(told.to), "text": told.text})
}

fn time(at: Timestamp) -> Value {
    at.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;
    use crate::scope::{Tenant, User};
    use crate::session::EndReason;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + second).expect("a time")
    }

    fn end() -> SessionEnd {
        let said = |role, content: &str, second| EndedMessage {
            role,
            name: None,
            content: content.into(),
            created_at: at(second),
        };
        SessionEnd {
            tenant: Tenant::parse("acme").expect("a tenant"),
            user: None,
            session: "+15551234567".into(),
            reason: EndReason::Ttl,
            created_at: at(0),
            last_accessed: at(60),
            message_count: 2,
            messages: vec![said(Role::User, "Hi", 1), said(Role::Assistant, "Hello", 2)],
            summaries: vec![EndedSummary { from: at(0), to: at(9), text: "They greet.".into() }],
        }
    }

    /// Written out, because receivers parse it.
    #[test]
    fn the_body_is_as_documented() {
        let expected = json!({
            "type": "session.ended",
            "timestamp": "2026-01-01T13:00:00Z",
            "data": {
                "tenant_id": "acme",
                "user_id": null,
                "session_id": "+15551234567",
                "reason": "ttl",
                "created_at": "2026-01-01T12:00:00Z",
                "last_accessed": "2026-01-01T12:01:00Z",
                "message_count": 2,
                "messages": [
                    {"role": "user", "content": "Hi", "created_at": "2026-01-01T12:00:01Z"},
                    {"role": "assistant", "content": "Hello", "created_at": "2026-01-01T12:00:02Z"},
                ],
                "summaries": [
                    {"from": "2026-01-01T12:00:00Z", "to": "2026-01-01T12:00:09Z", "text": "They greet."},
                ],
            },
        });
        assert_eq!(String::from_utf8_lossy(&body(&end(), at(3600))), expected.to_string());
    }

    /// The first is written out: receivers have it in their books.
    #[test]
    fn an_end_has_one_id_and_another_end_another() {
        let first = webhook_id(&end());
        assert_eq!(first, FIRST);
        assert_eq!(webhook_id(&SessionEnd { reason: EndReason::Shutdown, last_accessed: at(99), ..end() }), first);
        let others = [
            SessionEnd { tenant: Tenant::parse("globex").expect("a tenant"), ..end() },
            SessionEnd { user: User::parse("ann").ok(), ..end() },
            SessionEnd { session: "x".into(), ..end() },
            SessionEnd { created_at: at(1), ..end() },
            SessionEnd { message_count: 3, ..end() },
            SessionEnd { messages: Vec::new(), ..end() },
        ];
        for other in &others {
            assert_ne!(webhook_id(other), first, "{other:?}");
        }
    }

    const FIRST: &str = "msg_03c36f55beaf59e6aaaa1655108725e3";
}
