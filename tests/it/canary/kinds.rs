//! Every kind of request there is, as a list: a new route is a new line.

use serde_json::{Value, json};

use super::scan::{letter, word};
use super::wire::Request;

pub(super) const TENANTS: usize = 50;
pub(super) const USERS: usize = 3;
/// Conversations of each user.
const SESSIONS: usize = 2;

/// Chance that is the same on each run.
#[derive(Debug, Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    pub(super) fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Somebody: a user of a tenant, or a visitor of it, who comes with the user's key and shares nothing with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) tenant: usize,
    pub(super) user: usize,
    pub(super) visits: bool,
}

impl Actor {
    /// Anybody; half of the time one of a few who talk a lot, so that there is much to remember.
    pub(super) fn any(dice: &mut Dice) -> Self {
        let (tenants, users) = if dice.below(2) == 0 { (3, 2) } else { (TENANTS, USERS) };
        Self { tenant: dice.below(tenants), user: dice.below(users), visits: dice.below(5) == 0 }
    }

    /// Somebody else: of another tenant, or another user of the same one.
    fn stranger(self, dice: &mut Dice) -> Self {
        let other = |n: usize, of: usize, dice: &mut Dice| (n + 1 + dice.below(of - 1)) % of;
        match dice.below(2) {
            0 => Self { tenant: other(self.tenant, TENANTS, dice), visits: false, ..self },
            _ => Self { user: other(self.user, USERS, dice), visits: false, ..self },
        }
    }

    /// The letters of their words.
    pub(super) fn code(self) -> String {
        let who = self.user + if self.visits { USERS } else { 0 };
        [letter(self.tenant / 26), letter(self.tenant), letter(who)].iter().collect()
    }

    pub(super) fn tenant_name(self) -> String {
        format!("tenant-{}", self.tenant)
    }

    pub(super) fn user_name(self) -> String {
        format!("user-{}", self.user)
    }

    fn session(self, n: usize) -> String {
        format!("{:08x}-0000-4000-8{:03x}-{n:012x}", self.tenant + 1, self.user + 1)
    }

    fn word(self, dice: &mut Dice) -> String {
        word(&self.code(), dice.below(4), dice.below(6))
    }

    /// Something to say: about oneself, about the world, or back to what was said before.
    fn says(self, dice: &mut Dice) -> String {
        let (one, other) = (self.word(dice), self.word(dice));
        let plans = [
            format!("My dog is called {one}."),
            format!("I live in {one} and work for {other}."),
            format!("What did I tell you about {one}?"),
            format!("Please remember that {one} arrives on Friday with {other}."),
            format!("No, I meant {one}, not {other}."),
            "And what about that one?".to_owned(),
            format!(
                "Where is {one}? {}",
                "We talked about the garden, the roof and the car for a long time. ".repeat(9)
            ),
        ];
        dice.one_of(&plans).clone()
    }
}

/// A turn, topic or fact that somebody was shown: whoever asks for it next may be a stranger.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) noun: &'static str,
    pub(super) id: String,
    pub(super) to: Actor,
}

pub(super) type Seen = Vec<Shown>;

/// A kind of request.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Whether it must be refused, whoever asks.
    pub(super) refused: bool,
    make: fn(Actor, &mut Dice, &Seen) -> Request,
}

impl Kind {
    /// A request of this kind by somebody with this key.
    pub(super) fn request(&self, actor: Actor, key: &str, dice: &mut Dice, seen: &Seen) -> Request {
        let mut request = (self.make)(actor, dice, seen);
        request.headers.push(("authorization", format!("Bearer {key}")));
        request
    }
}

fn ask(method: &'static str, path: impl Into<String>, body: Value) -> Request {
    Request { method, path: path.into(), headers: Vec::new(), body }
}

fn with(mut request: Request, name: &'static str, value: String) -> Request {
    request.headers.push((name, value));
    request
}

fn chat(actor: Actor, dice: &mut Dice, stream: bool) -> Request {
    let session = actor.session(dice.below(SESSIONS));
    with(ask("POST", "/chat", json!({"query": actor.says(dice), "stream": stream})), "x-session-id", session)
}

fn completion(path: String, messages: Value, stream: bool) -> Request {
    ask("POST", format!("/v1/{path}/chat/completions"), json!({"model": "m", "messages": messages, "stream": stream}))
}

fn said(actor: Actor, dice: &mut Dice) -> Value {
    json!([{"role": "user", "content": actor.says(dice)}])
}

fn of_session(method: &'static str, actor: Actor, rest: &str, body: Value, dice: &mut Dice) -> Request {
    ask(method, format!("/api/v1/sessions/{}{rest}", actor.session(dice.below(SESSIONS))), body)
}

/// A thing of one's own, or of anybody, or one that is not there.
fn shown(noun: &str, actor: Actor, dice: &mut Dice, seen: &Seen) -> String {
    let own = dice.below(2) == 0;
    let fits = |shown: &&Shown| shown.noun == noun && (!own || shown.to == actor);
    let found: Vec<&Shown> = seen.iter().filter(fits).collect();
    let unknown = "00000000-0000-7000-8000-000000000000".to_owned();
    if found.is_empty() { unknown } else { dice.one_of(&found).id.clone() }
}

const fn kind(name: &'static str, make: fn(Actor, &mut Dice, &Seen) -> Request) -> Kind {
    Kind { name, refused: false, make }
}

const fn refused(name: &'static str, make: fn(Actor, &mut Dice, &Seen) -> Request) -> Kind {
    Kind { name, refused: true, make }
}

/// What visitors do.
pub(super) const VISITS: [Kind; 2] = [
    kind("visit", |a, d, _| completion(format!("{}:visit-{}", a.tenant_name(), a.user), said(a, d), false)),
    kind("visit, streamed", |a, d, _| completion(format!("{}:visit-{}", a.tenant_name(), a.user), said(a, d), true)),
];

/// What users do. What is said most often stands here more than once.
pub(super) const KINDS: [Kind; 44] = [
    kind("chat", |a, d, _| chat(a, d, false)),
    kind("chat", |a, d, _| chat(a, d, false)),
    kind("chat", |a, d, _| chat(a, d, false)),
    kind("chat, streamed", |a, d, _| chat(a, d, true)),
    kind("chat, streamed", |a, d, _| chat(a, d, true)),
    kind("chat, new session", |a, d, _| ask("POST", "/chat", json!({"query": a.says(d)}))),
    kind("completion", |a, d, _| {
        with(completion(a.tenant_name(), said(a, d), false), "x-session-id", a.session(d.below(SESSIONS)))
    }),
    kind("completion, streamed", |a, d, _| {
        with(completion(a.tenant_name(), said(a, d), true), "x-session-id", a.session(d.below(SESSIONS)))
    }),
    kind("completion, streamed", |a, d, _| {
        with(completion(a.tenant_name(), said(a, d), true), "x-session-id", a.session(d.below(SESSIONS)))
    }),
    kind("completion with history", |a, d, _| {
        let (first, answer, next) = (a.says(d), a.says(d), a.says(d));
        let role = |role: &str, content: String| json!({"role": role, "content": content});
        let messages = json!([role("user", first), role("assistant", answer), role("user", next)]);
        completion(a.tenant_name(), messages, d.below(2) == 0)
    }),
    kind("embeddings", |a, d, _| {
        ask("POST", format!("/v1/{}/embeddings", a.tenant_name()), json!({"model": "m", "input": a.says(d)}))
    }),
    kind("models", |a, _, _| ask("GET", format!("/v1/{}/models", a.tenant_name()), Value::Null)),
    kind("sessions", |_, _, _| ask("GET", "/api/v1/sessions?limit=50", Value::Null)),
    kind("new session", |a, d, _| {
        let body = json!({"id": a.session(d.below(SESSIONS)), "metadata": {"about": a.word(d)}});
        ask("POST", "/api/v1/sessions", body)
    }),
    kind("session", |a, d, _| of_session("GET", a, "", Value::Null, d)),
    kind("session changed", |a, d, _| of_session("PATCH", a, "", json!({"metadata": {"about": a.word(d)}}), d)),
    kind("session deleted", |a, _, _| {
        ask("DELETE", format!("/api/v1/sessions/{}", a.session(SESSIONS - 1)), Value::Null)
    }),
    kind("session ended", |a, d, _| of_session("POST", a, "/end", Value::Null, d)),
    kind("session ended", |a, d, _| of_session("POST", a, "/end", Value::Null, d)),
    kind("turns", |a, d, _| of_session("GET", a, "/turns?limit=50&include=superseded", Value::Null, d)),
    kind("turn added", |a, d, _| {
        let body = json!({"query": a.says(d), "response": format!("I see: {}", a.word(d))});
        of_session("POST", a, "/turns", body, d)
    }),
    kind("messages", |a, d, _| of_session("GET", a, "/messages?limit=50", Value::Null, d)),
    kind("messages added", |a, d, _| of_session("POST", a, "/messages", said(a, d), d)),
    kind("context", |a, d, _| of_session("GET", a, &format!("/context?query={}", a.word(d)), Value::Null, d)),
    kind("recall", |a, d, _| ask("POST", "/api/v1/recall", json!({"question": a.says(d), "explain": true}))),
    kind("topics", |_, _, _| ask("GET", "/api/v1/topics?limit=50", Value::Null)),
    kind("topics searched", |a, d, _| ask("POST", "/api/v1/topics/search", json!({"query": a.says(d)}))),
    kind("facts", |a, _, _| ask("GET", format!("/api/v1/users/{}/facts?limit=50", a.user_name()), Value::Null)),
    kind("fact added", |a, d, _| {
        let body = json!({"key": "city", "value": a.word(d)});
        ask("POST", format!("/api/v1/users/{}/facts", a.user_name()), body)
    }),
    kind("episodes", |_, _, _| ask("GET", "/api/v1/episodes?limit=50", Value::Null)),
    kind("export", |_, _, _| ask("GET", "/api/v1/export", Value::Null)),
    kind("digest", |_, _, _| ask("POST", "/api/v1/digest", Value::Null)),
    kind("stats", |_, _, _| ask("GET", "/api/v1/stats", Value::Null)),
    kind("clarifications", |_, _, _| ask("GET", "/api/v1/clarifications", Value::Null)),
    kind("turn of anybody", |a, d, s| ask("GET", format!("/api/v1/turns/{}", shown("turns", a, d, s)), Value::Null)),
    kind("trace of anybody", |a, d, s| {
        ask("GET", format!("/api/v1/turns/{}/context", shown("turns", a, d, s)), Value::Null)
    }),
    kind("topic of anybody", |a, d, s| {
        ask("GET", format!("/api/v1/topics/{}/messages", shown("topics", a, d, s)), Value::Null)
    }),
    kind("fact of anybody", |a, d, s| {
        ask("GET", format!("/api/v1/facts/{}/history", shown("facts", a, d, s)), Value::Null)
    }),
    kind("chat in a stranger's session", |a, d, _| {
        let session = a.stranger(d).session(0);
        with(ask("POST", "/chat", json!({"query": a.says(d)})), "x-session-id", session)
    }),
    kind("recall in a stranger's session", |a, d, _| {
        let body = json!({"question": a.says(d), "session_id": a.stranger(d).session(0)});
        ask("POST", "/api/v1/recall", body)
    }),
    kind("as a stranger, by header", |a, d, _| {
        with(ask("GET", "/api/v1/sessions?limit=50", Value::Null), "x-user-id", a.stranger(d).user_name())
    }),
    refused("admin's", |_, d, _| ask("GET", *d.one_of(&["/api/v1/webhooks", "/api/v1/keys", "/metrics"]), Value::Null)),
    refused("another tenant, by header", |a, d, _| {
        let other = Actor { tenant: (a.tenant + 1 + d.below(TENANTS - 1)) % TENANTS, ..a };
        with(ask("GET", "/api/v1/topics", Value::Null), "x-tenant-id", other.tenant_name())
    }),
    refused("another tenant, by path", |a, d, _| {
        let other = Actor { tenant: (a.tenant + 1 + d.below(TENANTS - 1)) % TENANTS, ..a };
        completion(other.tenant_name(), said(a, d), d.below(2) == 0)
    }),
];
