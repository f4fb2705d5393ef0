//! What was said comes back as it was said.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Talk;
use super::talk::{assistant, at, draft, object, tool_call, tool_result, user};
use crate::message::{Message, Role};
use crate::session::{OpenTurn, SessionPatch, TurnDraft, TurnStatus};
use crate::store::{Store, StoreError};

/// Every script, line break and odd character, and a long text.
pub async fn plain_words_come_back_as_they_were_said(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let long = "wide 🌍 ".repeat(50_000);
    let texts =
        ["Grüße, 世界! 👩‍👩‍👧", " leading and trailing \r\n", "a\u{0}b", "'; DROP TABLE turn; --", "e\u{301} é", &long];
    for text in texts {
        talk.exchange(text, text).await;
    }
    for (turn, text) in talk.turns().await.iter().zip(texts) {
        assert_eq!((turn.question().text.as_str(), turn.answer().map(|m| m.text.as_str())), (text, Some(text)));
    }
    assert_eq!(talk.last(usize::MAX).await, texts);
}

/// A turn with names, images, tool rounds and metadata is equal to itself after a trip through the disk.
pub async fn names_parts_and_tool_rounds_come_back_byte_for_byte(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let question = picture();
    let answer = Message {
        name: Some("Ada".into()),
        metadata: object(json!({"model": "m", "tokens_used": 12, "citations": []})),
        ..assistant("A cat.")
    };
    let followed = vec![tool_call(), tool_result(), tool_call(), tool_result(), answer];
    let open = OpenTurn { question: question.clone(), ..talk.question("") };
    let ending = talk.ending(open.id, TurnStatus::Complete, followed.clone());
    let created_at = talk.open(open).await.created_at;
    talk.try_close(ending).await.expect("the ending is written");
    let turn = talk.turns().await.remove(0);
    assert_eq!(turn.messages, [vec![Message { created_at, ..question }], followed].concat());
    let wire = serde_json::to_string(&turn.question().to_wire()).expect("a message is JSON");
    assert_eq!(wire, PICTURE);
}

const PICTURE: &str =
    r#"{"role":"user","name":"Bo","content":[{"type":"image_url","image_url":{"url":"data:,x"}}],"z":1,"a":2}"#;

/// A question that is nothing but a picture.
fn picture() -> Message {
    let wire: Value = serde_json::from_str(PICTURE).expect("JSON");
    let message = Message::from_wire(wire, at(0)).expect("a message");
    assert_eq!((message.role, message.text.as_str()), (Role::User, ""));
    Message { metadata: object(json!({"source": "camera"})), ..message }
}

/// JSON keeps its digits and the order of its keys, at every place it can stand.
pub async fn numbers_keep_their_digits_and_objects_their_order(store: Arc<dyn Store>) {
    let text = r#"{"z":0.1,"y":1.7976931348623157e+308,"x":-5e-324,"w":18446744073709551615,"v":-9223372036854775808,"u":2.225073858507201e-308,"t":31.245270191439438,"s":121.48791951161945,"a":{"c":null,"b":[true,1.0]}}"#;
    let odd: Value = serde_json::from_str(text).expect("JSON");
    let talk = Talk::new(&store);
    let with_raw = Message { raw: Some(odd.clone()), metadata: object(odd.clone()), ..user("?") };
    let messages = vec![with_raw.clone(), with_raw.clone(), Message { role: Role::Assistant, ..with_raw }];
    talk.add(vec![TurnDraft { messages, metadata: object(odd.clone()), created_at: Some(at(0)), ..draft("", "") }])
        .await;
    talk.update(SessionPatch { metadata: object(odd), ttl: None }).await.expect("the session is there");
    let turn = talk.turns().await.remove(0);
    let session = talk.find().await.expect("the session is there").metadata;
    let mut found = vec![Value::Object(session), Value::Object(turn.metadata)];
    found.extend(turn.messages.iter().filter_map(|message| message.raw.clone()));
    found.extend(turn.messages.into_iter().map(|message| Value::Object(message.metadata)));
    let found: Vec<String> = found.iter().map(Value::to_string).collect();
    assert_eq!(found, [text; 8]);
}

/// JSON that could be written and never read again is not taken in; what is taken in is read again.
pub async fn what_nests_too_deeply_is_refused(store: Arc<dyn Store>) {
    let nested = |depth: usize| (1..depth).fold(json!([]), |inner, _| json!([inner]));
    let with = |raw: Value| {
        let message = Message { raw: Some(raw), ..user("deep") };
        let messages = vec![message.clone(), message.clone(), Message { role: Role::Assistant, ..message }];
        TurnDraft { messages, ..draft("", "") }
    };
    let talk = Talk::new(&store);
    for depth in [100, 110, 118, 119, 120, 121, 122, 125, 128, 200] {
        match talk.try_add(vec![with(nested(depth))]).await {
            Ok(added) => assert_eq!(talk.turns().await.pop(), added.into_iter().last()),
            Err(error) => assert!(matches!(error, StoreError::Refused(_)) && depth > 100, "{depth}: {error}"),
        }
    }
    let metadata = object(json!({"deep": nested(200)}));
    let refused = talk.try_open(OpenTurn { metadata, ..talk.question("deep") }).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}
