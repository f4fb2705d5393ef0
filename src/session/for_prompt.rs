//! A turn as a prompt can hold it. Chat servers refuse a tool call without its result, so none is shown.

use super::{Turn, TurnStatus};
use crate::message::{Message, Role};

/// A turn whose calls all have their results. A call that is the whole answer (structured output) becomes text; one
/// whose result is still to come, or never came, is left out with the results beside it.
pub fn for_prompt(mut turn: Turn) -> Turn {
    let open = turn.open_calls();
    let lacks_results = |message: &Message| {
        let mut ids = message.call_ids().peekable();
        // The old form has no ids. Its results have a role of their own and are not kept.
        message.calls_tools() && (ids.peek().is_none() || ids.any(|id| open.iter().any(|call| call == id)))
    };
    if !turn.messages.iter().any(lacks_results) {
        return turn;
    }
    let last = turn.messages.iter().rposition(|message| message.role == Role::Assistant);
    let is_answer = |at: usize| turn.status == TurnStatus::Complete && Some(at) == last;
    let mut left_out: Vec<String> = Vec::new();
    let mut shown = Vec::with_capacity(turn.messages.len());
    for (at, message) in turn.messages.iter().enumerate() {
        if lacks_results(message) {
            left_out.extend(message.call_ids().map(str::to_owned));
            let plain = Message { raw: None, ..message.clone() };
            let plain = if is_answer(at) { as_plain_answer(message) } else { plain };
            shown.extend(Some(plain).filter(|plain| !plain.text.trim().is_empty()));
        } else if !message.answers_call().is_some_and(|call| left_out.iter().any(|id| id == call)) {
            shown.push(message.clone());
        }
    }
    turn.messages = shown;
    if turn.status == TurnStatus::Pending {
        // What is left of it waits for nothing.
        turn.status = TurnStatus::Partial;
    }
    turn
}

/// A call as an answer in text: the model's words, else what the tools are called with.
pub fn as_plain_answer(message: &Message) -> Message {
    let has_words = !message.text.trim().is_empty();
    let text = if has_words { message.text.clone() } else { message.call_arguments() };
    Message { text, raw: None, ..message.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn calls(ids: &[&str]) -> Value {
        let call = |id: &&str| json!({"id": id, "function": {"name": "f", "arguments": format!("{{{id}}}")}});
        json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": format!("result of {id}")})
    }

    /// The turn's messages, and what is shown of them: texts, `call` for calls.
    #[track_caller]
    fn check(status: TurnStatus, messages: Vec<Value>, expected: &[&str]) {
        let ids = CountedIds::default();
        let read = |wire| Message::from_wire(wire, Timestamp::UNIX_EPOCH).expect("a message");
        let turn = Turn {
            id: ids.turn(Timestamp::UNIX_EPOCH),
            session: ids.session(),
            number: 1,
            status,
            messages: messages.into_iter().map(read).collect(),
            metadata: Default::default(),
            created_at: Timestamp::UNIX_EPOCH,
            superseded: false,
        };
        let shown = for_prompt(turn);
        assert!(shown.enters_context(), "the user's words count");
        let told = |message: &Message| if message.calls_tools() { "call".into() } else { message.text.clone() };
        assert_eq!(shown.messages.iter().map(told).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn whole_rounds_stay_as_they_are() {
        let said = vec![user("q"), calls(&["a", "b"]), result("a"), result("b")];
        check(TurnStatus::Complete, said.clone(), &["q", "call", "result of a", "result of b"]);
        check(TurnStatus::Partial, said, &["q", "call", "result of a", "result of b"]);
    }

    #[test]
    fn a_call_that_waits_is_left_out_with_the_results_beside_it() {
        check(TurnStatus::Pending, vec![user("q"), calls(&["a"])], &["q"]);
        check(TurnStatus::Partial, vec![user("q"), calls(&["a", "b"]), result("a")], &["q"]);
        let second = vec![user("q"), calls(&["a"]), result("a"), calls(&["b"])];
        check(TurnStatus::Pending, second, &["q", "call", "result of a"]);
    }

    #[test]
    fn structured_output_is_text() {
        check(TurnStatus::Complete, vec![user("q"), calls(&["a", "b"])], &["q", "{a}\n{b}"]);
        let old = json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{x}"}});
        check(TurnStatus::Complete, vec![user("q"), old], &["q", "{x}"]);
    }

    #[test]
    fn the_words_beside_a_call_stay() {
        let mut words = calls(&["a"]);
        words["content"] = json!("Let me look.");
        check(TurnStatus::Pending, vec![user("q"), words], &["q", "Let me look."]);
    }
}
