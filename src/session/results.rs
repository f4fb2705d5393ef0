//! Results of tools that arrive with the next question: whose they are.

use serde_json::Map;

use super::align::{Held, Outline};
use super::exchange::{Asked, Exchange};
use super::{ClosedTurn, Turn, TurnStatus, for_prompt};
use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};

/// What a request adds to a turn that waited for its tools, beside its own question.
#[derive(Debug, Clone, PartialEq)]
pub struct LateResults {
    /// The turn.
    pub turn: TurnId,
    /// Which try at it waited.
    pub attempt: u32,
    /// The results, and what followed them elsewhere.
    pub messages: Vec<Message>,
    /// How the turn is now: nothing more is asked for in it.
    pub status: TurnStatus,
}

impl LateResults {
    /// The same as an ending, to be written.
    pub fn closing(self, session: SessionId) -> ClosedTurn {
        let Self { turn: id, attempt, messages, status } = self;
        ClosedTurn {
            id,
            session,
            status,
            messages,
            metadata: Map::new(),
            attempt,
            others: Vec::new(),
            trace: None,
            topic: None,
            waits_since: None,
        }
    }
}

/// The results in a request's past that turns wait for. Each belongs to the turn that made the call.
pub fn late_results(held: &Held, asked: &Asked) -> Vec<LateResults> {
    asked.exchanges.iter().filter_map(|exchange| held.late_result(exchange)).collect()
}

/// Turns in a form that a model takes, each with the results that a request brings for it.
pub fn with_results(turns: impl IntoIterator<Item = Turn>, late: &[LateResults]) -> Vec<Turn> {
    let complete = |mut turn: Turn| {
        let brought = late.iter().filter(|late| late.turn == turn.id).flat_map(|late| &late.messages);
        turn.messages.extend(brought.cloned());
        for_prompt(turn)
    };
    turns.into_iter().map(complete).collect()
}

impl Held {
    fn late_result(&self, exchange: &Exchange) -> Option<LateResults> {
        let (turn, from) = self.waits_for_exchange(exchange)?;
        let messages = exchange.messages[from..].to_vec();
        let answered = messages.last().is_some_and(|last| last.role == Role::Assistant && !last.calls_tools());
        let status = match turn.status {
            _ if answered => TurnStatus::Complete,
            TurnStatus::Complete => TurnStatus::Complete,
            _ => TurnStatus::Partial,
        };
        Some(LateResults { turn: turn.id, attempt: turn.attempt, messages, status })
    }

    /// The turn whose calls an exchange answers, and where in the exchange its results begin.
    pub(super) fn waits_for_exchange(&self, exchange: &Exchange) -> Option<(&Outline, usize)> {
        let asks = |turn: &&Outline| {
            // A client that sends only what is new leaves out the question.
            turn.question == exchange.question || exchange.messages[0].role == Role::Tool
        };
        let waiting = self.turns.iter().filter(|turn| !turn.open_calls.is_empty()).filter(asks);
        let found = waiting.filter_map(|turn| {
            let answers = |message: &Message| {
                message.answers_call().is_some_and(|id| turn.open_calls.iter().any(|call| call == id))
            };
            Some((turn, exchange.messages.iter().position(answers)?))
        });
        found.max_by_key(|(turn, _)| (turn.visible, turn.number))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientIds, Fingerprint, HistoryMode, Step, align};
    use super::*;
    use crate::id::{CountedIds, Ids};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn read(wire: Value) -> Message {
        Message::from_wire(wire, Timestamp::UNIX_EPOCH).expect("a message")
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn call(id: &str) -> Value {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id}]})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "noon"})
    }

    fn asked(messages: &[Value]) -> Asked {
        Asked::read(messages.iter().cloned().map(read).collect(), ClientIds::default(), false).expect("a request")
    }

    /// A session of one turn: `time?`, answered with these messages.
    fn held(status: TurnStatus, said: &[Value]) -> Held {
        let messages: Vec<Message> = std::iter::once(user("time?")).chain(said.iter().cloned()).map(read).collect();
        let calls = messages.iter().flat_map(Message::call_ids).map(str::to_owned).collect();
        let turn = Outline {
            id: CountedIds::default().turn(Timestamp::UNIX_EPOCH),
            number: 1,
            parent: 0,
            visible: true,
            status,
            question: Fingerprint::of(&messages[0]),
            answer: messages.get(1).map(Fingerprint::of),
            revisions: Vec::new(),
            ids: ClientIds::default(),
            open_calls: calls,
            attempt: 0,
        };
        Held { mode: HistoryMode::Server, turns: vec![turn], earlier: 0 }
    }

    /// What a request adds to the turn: roles, and how the turn is then.
    #[track_caller]
    fn check(held: &Held, request: &[Value], expected: Option<(&str, TurnStatus)>) {
        let late = late_results(held, &asked(request));
        let told = late.first().map(|late| {
            let roles: Vec<&str> = late.messages.iter().map(|message| message.role.as_str()).collect();
            (roles.join(" "), late.status)
        });
        assert_eq!(told, expected.map(|(roles, status)| (roles.to_owned(), status)));
        assert!(late.len() < 2);
    }

    #[test]
    fn results_belong_to_the_turn_that_called() {
        let waits = held(TurnStatus::Pending, &[call("c1")]);
        let next = user("and now?");
        let brought = [user("time?"), call("c1"), result("c1"), next.clone()];
        check(&waits, &brought, Some(("tool", TurnStatus::Partial)));
        check(&waits, &brought[2..], Some(("tool", TurnStatus::Partial)));
        check(&held(TurnStatus::Complete, &[call("c1")]), &brought, Some(("tool", TurnStatus::Complete)));
        let answer = json!({"role": "assistant", "content": "Noon."});
        let elsewhere = [user("time?"), call("c1"), result("c1"), answer, next.clone()];
        check(&waits, &elsewhere, Some(("tool assistant", TurnStatus::Complete)));
        check(&waits, &[user("time?"), call("c2"), result("c2"), next.clone()], None);
        check(&waits, &[user("else?"), call("c1"), result("c1"), next], None);
    }

    /// How many of the messages before the question are no new turns, and whether the first is a preamble.
    #[track_caller]
    fn check_known(held: &Held, request: &[Value], known: usize, is_preamble: bool) {
        let request = asked(request);
        let Step::Append { import, .. } = align(held, &request).step else { panic!("it is appended") };
        assert_eq!((import, held.preamble(&request).is_some()), (known, is_preamble));
    }

    #[test]
    fn what_is_known_before_a_question_is_no_turn() {
        let again = [user("time?"), user("hello")];
        check_known(&Held::default(), &again, 0, false);
        check_known(&held(TurnStatus::Pending, &[call("c1")]), &again, 1, false);
        check_known(&held(TurnStatus::Partial, &[]), &again, 1, true);
        check_known(&held(TurnStatus::Partial, &[]), &[user("new"), user("hello")], 0, false);
        check_known(&held(TurnStatus::Pending, &[call("c1")]), &[result("c1"), user("hello")], 1, false);
        check_known(&held(TurnStatus::Pending, &[call("c1")]), &[result("c2"), user("hello")], 0, false);
    }

    #[test]
    fn a_preamble_is_known_by_the_questions_behind_it() {
        let mut late = held(TurnStatus::Complete, &[]);
        late.turns[0].ids.preamble = Some(Fingerprint::of(&read(user("Be brief."))).to_string());
        check_known(&late, &[user("Be brief."), user("hello")], 1, true);
    }
}
