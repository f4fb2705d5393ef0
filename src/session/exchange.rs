//! A client's message list, read as a conversation: exchanges that are over, and one that is open.

use super::{ClientIds, Fingerprint, last_answer};
use crate::message::{Message, Role};

/// A question of the past and what followed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Question, tool rounds, answer.
    pub messages: Vec<Message>,
    /// What was asked.
    pub question: Fingerprint,
    /// What was answered in the end.
    pub answer: Option<Fingerprint>,
}

/// A request: the past as the client tells it, and what it asks now.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What is over.
    pub exchanges: Vec<Exchange>,
    /// What is open: the question, and tool rounds after it.
    pub open: Vec<Message>,
    /// The fingerprint of the question.
    pub question: Fingerprint,
    /// Tool calls whose results end the list.
    pub tool_results: Vec<String>,
    /// What the client calls its parts.
    pub ids: ClientIds,
    /// Whether the client says that it asks again.
    pub marked_as_retry: bool,
    /// Whether the client always sends its whole history, so that a message without any is its first.
    pub resends_history: bool,
    /// Whether the client names the session. What it says about the past counts only there.
    pub names_session: bool,
}

/// The last answered exchange in the client's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Its question.
    pub question: Fingerprint,
    /// Its answer.
    pub answer: Fingerprint,
    /// Whether the client's history has answered exchanges before it. Then a conversation that begins with it is another one.
    pub follows_others: bool,
}

impl Asked {
    /// Reads a message list. `None` when it has neither a question nor a tool result. What the setup says (system
    /// and developer messages) is no part of the conversation.
    pub fn read(messages: Vec<Message>, ids: ClientIds, marked_as_retry: bool) -> Option<Self> {
        let mut exchanges: Vec<Vec<Message>> = Vec::new();
        for message in messages.into_iter().filter(|message| message.role != Role::System) {
            match exchanges.last_mut() {
                Some(open) if message.role != Role::User => open.push(message),
                _ => exchanges.push(vec![message]),
            }
        }
        let goes_on = |open: &[Message]| open.last().is_some_and(|last| last.answers_call().is_some());
        let open = exchanges.pop().filter(|open| open[0].role == Role::User || goes_on(open))?;
        let question = Fingerprint::of(&open[0]);
        let tool_results = tool_results(&open);
        let exchanges = exchanges.into_iter().map(Exchange::of).collect();
        Some(Self {
            exchanges,
            open,
            question,
            tool_results,
            ids,
            marked_as_retry,
            resends_history: false,
            names_session: false,
        })
    }

    /// Whether it brings nothing but the results of tools: a client that sends only what is new leaves out the question
    /// whose turn they belong to.
    pub fn has_no_question(&self) -> bool {
        self.open[0].role != Role::User
    }

    /// Whether the client resends what was answered before.
    pub fn carries_answers(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.answer.is_some())
    }

    /// The request without its first exchanges.
    pub fn without_first(&self, count: usize) -> Self {
        Self { exchanges: self.exchanges[count..].to_vec(), ..self.clone() }
    }

    /// The end of the past, if it was answered.
    pub fn tail(&self) -> Option<Tail> {
        let (last, before) = self.exchanges.split_last()?;
        let follows_others = before.iter().any(|exchange| exchange.answer.is_some());
        Some(Tail { question: last.question, answer: last.answer?, follows_others })
    }

    /// The chain of the past, to find a conversation by what was said in it.
    pub fn chain(&self, beginning: Fingerprint) -> Fingerprint {
        self.exchanges.iter().fold(beginning, |chain, exchange| exchange.chained(chain))
    }
}

impl Exchange {
    fn of(messages: Vec<Message>) -> Self {
        let question = Fingerprint::of(&messages[0]);
        let answer = last_answer(&messages).map(Fingerprint::of);
        Self { messages, question, answer }
    }

    /// The chain after this exchange.
    pub fn chained(&self, chain: Fingerprint) -> Fingerprint {
        chained(chain, self.question, self.answer)
    }
}

/// The chain after an exchange.
pub fn chained(chain: Fingerprint, question: Fingerprint, answer: Option<Fingerprint>) -> Fingerprint {
    let asked = chain.after(question);
    answer.map_or(asked, |answer| asked.after(answer))
}

/// The ids of the calls that the last messages answer.
fn tool_results(open: &[Message]) -> Vec<String> {
    let results = open.iter().rev().take_while(|message| message.role == Role::Tool);
    results.filter_map(Message::answers_call).map(str::to_owned).collect()
}
