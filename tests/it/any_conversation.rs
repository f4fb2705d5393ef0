//! Whatever a client does with a conversation under `/v1`, each message is stored once and what is visible is
//! what the client shows. The pure version stands beside `session/align.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use recalld::id::SessionId;
use recalld::message::{Message, Role};
use recalld::scope::{Scope, Tenant, User};
use recalld::store::{PageRequest, Store};
use serde_json::{Value, json};

use crate::house::{Answer, House};
use crate::openai::{CHAT, body, open, said};
use crate::properties::cases;
use crate::upstream::{Recording, Reply};

/// What a person does with a chat client.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// Asks, resending everything; the model calls so many tools on the way, and may fail at the end and be
    /// asked again.
    Ask {
        question: u8,
        rounds: usize,
        fails: bool,
    },
    /// Asks, sending only the question.
    AskOnly(u8),
    Regenerate,
    Edit {
        back: usize,
    },
    /// Asks, having forgotten all but the last exchanges.
    Truncate {
        keep: usize,
    },
    /// Sends the last request again, marked as a retry.
    Retry,
}

pub(crate) fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (any::<u8>(), 0_usize..3, prop::bool::weighted(0.2))
            .prop_map(|(question, rounds, fails)| Deed::Ask { question, rounds, fails }),
        2 => any::<u8>().prop_map(Deed::AskOnly),
        2 => Just(Deed::Regenerate),
        2 => (0_usize..5).prop_map(|back| Deed::Edit { back }),
        1 => (1_usize..3).prop_map(|keep| Deed::Truncate { keep }),
        2 => Just(Deed::Retry),
    ]
}

/// What a client says about where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Naming {
    Session,
    /// A chat of Open WebUI, which always resends everything.
    OpenWebUi,
    Nothing,
}

/// A chat client, and what it shows.
struct Client<'a> {
    house: &'a House,
    upstream: Arc<Recording>,
    session: String,
    naming: Naming,
    shown: Vec<(String, String)>,
    /// Whether it has ever resent what was answered, and whether it has forgotten something.
    resends: bool,
    forgets: bool,
    last: Option<(Value, String)>,
    requests: usize,
    failures: usize,
}

impl Client<'_> {
    async fn does(&mut self, deed: &Deed) -> Result<(), TestCaseError> {
        let n = self.requests;
        match deed {
            Deed::Ask { question, rounds, fails } => {
                // A first question without any name begins a chat each time.
                let fails = *fails && (self.is_named() || !self.shown.is_empty());
                self.ask_with(format!("q{question}"), 0, *rounds, fails).await
            }
            Deed::AskOnly(question) if self.naming == Naming::Session && !self.resends => {
                self.ask(format!("q{question}"), self.shown.len(), 0).await
            }
            Deed::Regenerate if self.shown.len() > self.lasting() => {
                let (question, _) = self.shown.pop().expect("an exchange");
                self.ask(question, 0, 0).await
            }
            Deed::Edit { back } if self.is_named() && !self.forgets && self.shown.len() > self.lasting() => {
                let at = self.shown.len() - 1;
                self.shown.truncate((at - at.min(*back)).max(self.lasting()));
                self.ask(format!("edited {n}"), 0, 0).await
            }
            Deed::Truncate { keep } if self.is_named() && self.shown.len() > *keep => {
                self.forgets = true;
                self.ask(format!("after forgetting {n}"), self.shown.len() - keep, 0).await
            }
            Deed::Retry => self.retry().await,
            _ => Ok(()),
        }
    }

    fn is_named(&self) -> bool {
        self.naming != Naming::Nothing
    }

    /// How many exchanges a client cannot go back on: a lone question is a new one, unless the client is known.
    fn lasting(&self) -> usize {
        if self.naming == Naming::OpenWebUi { 0 } else { 1 }
    }

    async fn ask(&mut self, question: String, from: usize, rounds: usize) -> Result<(), TestCaseError> {
        self.ask_with(question, from, rounds, false).await
    }

    /// Asks after the exchanges from `from` on, and goes through the tool rounds.
    async fn ask_with(
        &mut self,
        question: String,
        from: usize,
        rounds: usize,
        fails: bool,
    ) -> Result<(), TestCaseError> {
        let pair = |(q, a): &(String, String)| {
            [json!({"role": "user", "content": q}), json!({"role": "assistant", "content": a})]
        };
        let mut messages: Vec<Value> = self.shown[from..].iter().flat_map(pair).collect();
        self.resends |= !messages.is_empty();
        messages.push(json!({"role": "user", "content": question}));
        for _ in 0..rounds {
            let id = format!("call {}", self.requests);
            self.upstream.calls(&id);
            let called = self.send(messages.clone()).await.expect(200);
            messages.push(called["choices"][0]["message"].clone());
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": format!("result of {id}")}));
        }
        if fails {
            self.failures += 1;
            self.upstream.then(Reply::Refuses(500, json!({"error": {"message": "no"}})));
            prop_assert_eq!(self.send(messages.clone()).await.status, 500);
        }
        let answer = said(&self.send(messages).await);
        self.shown.push((question, answer));
        self.check().await
    }

    async fn send(&mut self, messages: Vec<Value>) -> Answer {
        self.requests += 1;
        let (request, key) = (body(messages.into()), format!("{} {}", self.session, self.requests));
        self.last = Some((request.clone(), key.clone()));
        let answer = self.deliver(request, &key, false).await;
        if !self.is_named() {
            // The first answer tells where it is; all later ones must be there too.
            let session = answer.header("x-session-id").to_owned();
            let first = std::mem::replace(&mut self.session, session.clone());
            assert!(self.requests == 1 || first == session, "the chat was lost");
        }
        answer
    }

    fn deliver(&self, request: Value, key: &str, retry: bool) -> impl Future<Output = Answer> {
        let ask = self.house.post(CHAT).header("idempotency-key", key);
        let ask = match self.naming {
            Naming::Session => ask.session(&self.session),
            Naming::OpenWebUi => ask.header("x-openwebui-chat-id", &self.session),
            Naming::Nothing => ask,
        };
        let ask = if retry { ask.header("x-stainless-retry-count", "1") } else { ask };
        ask.json(request)
    }

    async fn retry(&self) -> Result<(), TestCaseError> {
        let Some((request, key)) = self.last.clone() else { return Ok(()) };
        let asked = self.upstream.seen().len();
        let answer = said(&self.deliver(request, &key, true).await);
        prop_assert_eq!(Some(&answer), self.shown.last().map(|(_, answer)| answer));
        prop_assert_eq!(self.upstream.seen().len(), asked, "a retry was asked again");
        self.check().await
    }

    /// What is visible is what the client shows.
    async fn check(&self) -> Result<(), TestCaseError> {
        let expected: Vec<String> = self.shown.iter().map(|(q, a)| format!("{q}/{a}")).collect();
        let turns = self.house.turns(&self.session).await;
        // A question that failed may stay before the one that did not.
        let answered = turns.iter().filter(|turn| turn["status"] != "failed");
        let text = |turn: &Value, field: &str| turn[field].as_str().unwrap_or("-").to_owned();
        let visible = answered.map(|turn| [text(turn, "query_text"), text(turn, "response_text")].join("/"));
        prop_assert_eq!(visible.collect::<Vec<_>>(), expected);
        Ok(())
    }

    /// Everything the model ever said is kept exactly once, superseded and revised answers included.
    async fn check_kept(&self, before: usize) -> Result<(), TestCaseError> {
        let scope = Scope::new(Tenant::default(), User::anonymous());
        let session = SessionId::parse(&self.session).expect("a session");
        let page = PageRequest { superseded: true, ..PageRequest::first(1_000) };
        let turns = self.house.store.turns(&scope, session, page).await.expect("readable").expect("a session").items;
        let mut kept = Vec::new();
        for turn in turns {
            let revisions = self.house.store.revisions(&scope, turn.id).await.expect("readable").expect("a turn");
            kept.extend(turn.messages);
            kept.extend(revisions.into_iter().flat_map(|revision| revision.messages));
        }
        let by_model = |message: &&Message| message.role == Role::Assistant;
        let answers: Vec<String> = kept.iter().filter(by_model).map(|message| message.to_wire().to_string()).collect();
        let different: BTreeSet<&String> = answers.iter().collect();
        prop_assert_eq!(different.len(), answers.len(), "something is kept twice");
        prop_assert_eq!(answers.len(), self.upstream.seen().len() - before - self.failures, "something is missing");
        Ok(())
    }
}

pub(crate) async fn converse(
    house: &House,
    upstream: &Arc<Recording>,
    naming: Naming,
    deeds: &[Deed],
) -> Result<(), TestCaseError> {
    let before = upstream.seen().len();
    let session = house.memory.new_session_id().to_string();
    let upstream = Arc::clone(upstream);
    let mut client = Client {
        house,
        upstream,
        session,
        naming,
        shown: Vec::new(),
        resends: false,
        forgets: false,
        last: None,
        requests: 0,
        failures: 0,
    };
    for deed in deeds {
        client.does(deed).await?;
    }
    if client.shown.is_empty() { Ok(()) } else { client.check_kept(before).await }
}

/// C5: any conversation with edits, regenerated answers, marked retries, tool rounds, truncations and partial
/// resends ends with each message stored once and the visible history equal to the client's. All cases share
/// a house and often begin alike, so chats that touched each other would be seen.
#[test]
fn any_conversation_is_remembered_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (house, upstream) = runtime.block_on(async { open() });
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let naming = prop_oneof![Just(Naming::Session), Just(Naming::OpenWebUi), Just(Naming::Nothing)];
    let strategy = (naming, prop::collection::vec(deed(), 1..12));
    let tried = runner.run(&strategy, |(naming, deeds)| runtime.block_on(converse(&house, &upstream, naming, &deeds)));
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}
