//! Many scopes at once, all saying nearly the same: what is recalled in one is its own, is not deleted, and is not lost.
//!
//! `diary` knows what each scope must recall. Here several tasks write, edit, delete and ask in scopes that come into
//! use and are left again, while rows are derived, time passes, and memory holds a few indexes only.
//! `RECALLD_SCOPES=10000` runs the long campaign, `RECALLD_SEED` another one.

mod diary;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode};
use futures_util::stream;
use jiff::{SignedDuration, Timestamp};
use recalld::clock::Clock;
use recalld::id::SessionId;
use recalld::message::{Message, Role};
use recalld::mode::Mode;
use recalld::model::relay::{PassFuture, Passed, Relayed, Upstream};
use recalld::period::Ttl;
use recalld::recall::{Ask, Fate};
use recalld::review::{PastTurn, ReviewError};
use recalld::scope::{Scope, Tenant, User};
use recalld::session::{AddedMessage, ClientIds, SessionSeed, Turn};
use recalld::store::{Store, Todo};
use recalld::turn::proxy::ProxyRequest;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::diary::{Chat, Diary, Pair, Session};
use crate::house::House;

const SCOPES: u64 = 200;
/// Deeds for each scope.
const DEEDS_EACH: u64 = 20;
const TASKS: u64 = 8;
/// Scopes in use at one time; memory holds the indexes of about as many.
const IN_USE: u64 = 8;
const INDEX_BYTES_MAX: usize = 192 * 1024;
/// Sessions of a scope that are written to, and exchanges in its chat.
const SESSIONS_MAX: usize = 4;
const EXCHANGES_MAX: usize = 8;
/// How long a fleeting session's turns live, and how much time passes in a fifth of a second.
const LIFE: SignedDuration = SignedDuration::from_mins(60);
const STEP: SignedDuration = SignedDuration::from_mins(10);

const NAMES: [&str; 4] = ["Ann", "Bob", "Cyd", "Dov"];
const TALK: [&str; 6] = [
    "We planted roses in the garden near the old well",
    "My sister called about the garden and the weather",
    "The train to the old town was late again yesterday",
    "I prefer the small garden behind the house in spring",
    "Remember that the weather in town was lovely in May",
    "The old house near the station needs a new roof",
];

/// One scope and what is known of it.
struct Place {
    scope: Scope,
    diary: Mutex<Diary>,
}

impl Place {
    /// Names that are easily taken for one another: the same letters cut elsewhere, or in the other case.
    fn of(number: u64) -> Self {
        let text = format!("user{:04}", number / 6);
        let text = if number % 6 < 3 { text } else { text.to_uppercase() };
        let (tenant, user) = text.split_at(1 + number as usize % 3);
        let scope = Scope::new(Tenant::parse(tenant).expect("a tenant"), User::parse(user).expect("a user"));
        Self { scope, diary: Mutex::new(Diary::of(number as usize)) }
    }

    fn diary(&self) -> MutexGuard<'_, Diary> {
        self.diary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was done.
#[derive(Default)]
struct Tally {
    deeds: AtomicU64,
    turns: AtomicU64,
    chats: AtomicU64,
    deletions: AtomicU64,
    expired: AtomicU64,
    recalls: AtomicU64,
    /// Recalls that had to find a certain message.
    wanted: AtomicU64,
    derived: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

/// A model that says what the request tells it to, and shows what it was shown.
struct Echo;

impl Upstream for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn pass(&self, request: Passed) -> PassFuture<'_> {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let message = json!({"role": "assistant", "content": body["say"]});
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        let answer = json!({"object": "chat.completion", "choices": [choice], "shown": body["messages"]});
        let body = Box::pin(stream::iter([Ok(Bytes::from(answer.to_string()))]));
        Box::pin(async { Ok(Relayed { status: StatusCode::OK, headers: HeaderMap::new(), body }) })
    }
}

/// Everything the tasks share.
struct Campaign {
    house: House,
    places: Vec<Place>,
    deeds: u64,
    tally: Tally,
    over: AtomicBool,
}

impl Campaign {
    fn open(scopes: u64) -> Self {
        let house = House::plan().setting(|settings| settings.index_bytes_max = INDEX_BYTES_MAX);
        Self {
            house: house.upstream(Arc::new(Echo)).open(),
            places: (0..scopes).map(Place::of).collect(),
            deeds: scopes * DEEDS_EACH,
            tally: Tally::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Does what is left to do, one deed after the other.
    async fn work(self: Arc<Self>, mut dice: Dice) {
        loop {
            let done = self.tally.deeds.fetch_add(1, Ordering::Relaxed);
            if done >= self.deeds {
                return;
            }
            let place = self.choose(done, &mut dice);
            match dice.below(32) {
                0..=11 => self.adds(place, &mut dice).await,
                12..=17 => self.chats(place, &mut dice).await,
                18..=19 => self.deletes(place, &mut dice).await,
                20..=29 => self.recalls(place, &mut dice).await,
                30 => self.looks_at_all(place).await,
                _ => self.house.memory.recall_desk().let_go(&place.scope),
            }
        }
    }

    /// One of the scopes in use, which move on; now and then one from before.
    fn choose(&self, done: u64, dice: &mut Dice) -> &Place {
        let scopes = self.places.len();
        let first = (done * scopes as u64 / self.deeds) as usize;
        let at = if dice.below(5) == 0 { dice.below(first + 1) } else { first + dice.below(IN_USE as usize) };
        &self.places[at % scopes]
    }

    // --- Writing -----------------------------------------------------------------------------------------

    /// Adds an exchange to a session, which somebody else may be deleting.
    async fn adds(&self, place: &Place, dice: &mut Dice) {
        let session = match self.session(place, dice) {
            Some(session) => session,
            None => self.begins(place, dice).await,
        };
        let (pair, [question, answer]) = self.words(place, session.id, dice);
        let added = match dice.below(3) {
            0 => self.add_messages(place, session.id, question, answer, dice).await,
            _ => {
                let turn =
                    PastTurn { query: question, response: answer, metadata: Default::default(), created_at: None };
                self.house.memory.add_turn(&place.scope, session.id, turn).await
            }
        };
        let mut diary = place.diary();
        match added {
            Ok(turn) => {
                count(&self.tally.turns);
                let until = session.fleeting.then(|| turn.created_at + LIFE);
                diary.arrived(turn.id, pair, until);
            }
            Err(ReviewError::UnknownSession(_)) => {
                assert!(session.fleeting || !diary.sessions.contains(&session), "{session:?} was lost");
                diary.sessions.retain(|open| *open != session);
                diary.gone(&pair.words());
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The same as loose messages, by somebody with a name.
    async fn add_messages(
        &self,
        place: &Place,
        session: SessionId,
        question: String,
        answer: String,
        dice: &mut Dice,
    ) -> Result<Turn, ReviewError> {
        let name = format!("{} {}", dice.of(&NAMES), place.diary().own());
        let said = |role, text, name| {
            let message = Message { name, ..Message::new(role, text, Timestamp::UNIX_EPOCH) };
            AddedMessage { message, dated: false }
        };
        let messages = vec![said(Role::User, question, Some(name)), said(Role::Assistant, answer, None)];
        let turns = self.house.memory.add_messages(&place.scope, session, messages).await?;
        assert_eq!((turns.len(), turns[0].messages.len()), (1, 2), "{turns:?}");
        Ok(turns.into_iter().next().expect("one turn"))
    }

    /// An open session, if there are enough.
    fn session(&self, place: &Place, dice: &mut Dice) -> Option<Session> {
        place.diary().sessions.get(dice.below(SESSIONS_MAX)).copied()
    }

    async fn begins(&self, place: &Place, dice: &mut Dice) -> Session {
        let fleeting = dice.below(4) == 0;
        let ttl = fleeting.then(|| "60m".parse::<Ttl>().expect("a period"));
        let seed = SessionSeed { ttl, ..SessionSeed::default() };
        let made = self.house.memory.create_session(&place.scope, None, seed).await.expect("a session");
        let session = Session { id: made.id, fleeting };
        place.diary().sessions.push(session);
        session
    }

    /// Words and texts of an exchange. Everybody talks about the same, so that everything is similar.
    fn words(&self, place: &Place, session: SessionId, dice: &mut Dice) -> (Pair, [String; 2]) {
        let mut diary = place.diary();
        let pair = Pair { question: diary.coming(session), answer: diary.coming(session) };
        let texts = pair.words().map(|word| {
            let short = format!("{}, {}, {}.", dice.of(&TALK), diary.own(), diary.text(word));
            // Some are so long that only a passage of them is shown.
            if dice.below(12) == 0 { format!("{}. {}. {short}", TALK.join(". "), TALK.join(" and ")) } else { short }
        });
        (pair, texts)
    }

    async fn deletes(&self, place: &Place, dice: &mut Dice) {
        let Some(session) = self.session(place, dice) else { return };
        place.diary().closing(session.id);
        let deleted = self.house.memory.delete_session(&place.scope, session.id).await;
        let known = !matches!(deleted, Err(ReviewError::UnknownSession(_)));
        assert!(known || session.fleeting, "{session:?} was lost");
        deleted.map_or_else(|error| assert!(!known, "{error}"), |_| count(&self.tally.deletions));
        place.diary().closed(session.id);
    }

    // --- Chatting ----------------------------------------------------------------------------------------

    /// Goes on with the scope's chat, through the proxy: asks, asks again, edits, or deletes it all.
    async fn chats(&self, place: &Place, dice: &mut Dice) {
        let Some(mut chat) = place.diary().chat.take() else { return };
        match dice.below(8) {
            0 | 1 if chat.shown.len() > 1 => self.asks_again(place, &mut chat, dice).await,
            2 | 3 if chat.shown.len() > 1 => self.edits(place, &mut chat, dice).await,
            4 if !chat.shown.is_empty() => self.forgets(place, &mut chat).await,
            _ if chat.shown.len() >= EXCHANGES_MAX => self.forgets(place, &mut chat).await,
            _ => self.asks(place, &mut chat, dice).await,
        }
        place.diary().chat = Some(chat);
    }

    async fn asks(&self, place: &Place, chat: &mut Chat, dice: &mut Dice) {
        let session = *chat.session.get_or_insert_with(|| self.house.memory.new_session_id());
        let (pair, texts) = self.words(place, session, dice);
        self.proxies(place, chat, pair, texts).await;
    }

    /// Another answer takes the place of the last one.
    async fn asks_again(&self, place: &Place, chat: &mut Chat, dice: &mut Dice) {
        let (old, [question, _]) = chat.shown.pop().expect("an exchange");
        place.diary().leaving(&old.words());
        let session = chat.session.expect("it has begun");
        let answer = place.diary().coming(session);
        let text = format!("{}, {}.", dice.of(&TALK), place.diary().text(answer));
        self.proxies(place, chat, Pair { answer, ..old }, [question, text]).await;
        place.diary().gone(&[old.answer]);
    }

    /// Another question takes the place of an earlier one and all that came after it.
    async fn edits(&self, place: &Place, chat: &mut Chat, dice: &mut Dice) {
        let at = dice.below(chat.shown.len());
        let old: Vec<_> = chat.shown.drain(at..).flat_map(|(pair, _)| pair.words()).collect();
        place.diary().leaving(&old);
        self.asks(place, chat, dice).await;
        place.diary().gone(&old);
    }

    /// The chat is deleted, and begins anew, now and then under the same name.
    async fn forgets(&self, place: &Place, chat: &mut Chat) {
        let session = chat.session.expect("it has begun");
        let old: Vec<_> = chat.shown.drain(..).flat_map(|(pair, _)| pair.words()).collect();
        place.diary().leaving(&old);
        self.house.memory.delete_session(&place.scope, session).await.expect("deleted");
        count(&self.tally.deletions);
        place.diary().gone(&old);
        if old.len() % 4 == 0 {
            chat.session = None;
        }
    }

    /// Sends everything that the client shows and a question, and looks at what the model was shown.
    async fn proxies(&self, place: &Place, chat: &mut Chat, pair: Pair, texts: [String; 2]) {
        let pairs = chat.shown.iter().flat_map(|(_, texts)| texts).chain([&texts[0]]);
        let roles = ["user", "assistant"].into_iter().cycle();
        let messages: Value = pairs.zip(roles).map(|(text, role)| json!({"role": role, "content": text})).collect();
        let body = json!({"model": "m", "messages": messages, "say": texts[1]});
        let request = proxied(chat.session.expect("it has begun"), body);
        let began = place.diary().now();
        let mut proxied = self.house.memory.proxy(&place.scope, request).await.expect("an answer");
        let mut answer = Vec::new();
        while let Some(piece) = proxied.body.recv().await {
            answer.extend(piece);
        }
        count(&self.tally.chats);
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["choices"][0]["message"]["content"], texts[1]);
        let mut diary = place.diary();
        diary.check_text(&answer["shown"].to_string(), began);
        diary.arrived(proxied.head.turn.expect("it is remembered"), pair, None);
        chat.shown.push((pair, texts));
    }

    // --- Asking ------------------------------------------------------------------------------------------

    /// Asks for a message by its word, whatever became of it, or for what everybody talks about, or for somebody else's.
    async fn recalls(&self, place: &Place, dice: &mut Dice) {
        let somebodys = self.any_word(dice);
        let (wanted, question, began) = {
            let diary = place.diary();
            let wanted = diary.question(dice).filter(|_| dice.below(8) > 0);
            let about = match wanted {
                Some(word) => diary.text(word),
                None => format!("{somebodys}, {}", dice.of(&TALK)),
            };
            (wanted, format!("What did {} say about {about}?", dice.of(&NAMES)), diary.now())
        };
        let session = self.session(place, dice).map(|session| session.id).filter(|_| dice.below(2) == 0);
        let ask = Ask { question, session, tokens_max: 1_000, ..Ask::default() };
        let recalled = self.house.memory.recall(&place.scope, &ask).await.expect("recalled");
        count(&self.tally.recalls);

        let mut diary = place.diary();
        diary.check_text(&recalled.text, began);
        recalled.reminders.iter().for_each(|reminder| diary.check_text(&reminder.text, began));
        diary.check_turns(recalled.ranked.iter().map(|ranked| ranked.message.turn()), began);
        diary.check_turns(recalled.reminders.iter().map(|reminder| reminder.message.turn()), began);
        let now = self.house.clock.reading().wall;
        let Some((word, turn)) = wanted.and_then(|word| Some((word, diary.must_be_found(word, began, now)?))) else {
            return;
        };
        count(&self.tally.wanted);
        let found = recalled.ranked.iter().find(|ranked| ranked.message == turn.message(0));
        let found = found.unwrap_or_else(|| panic!("{turn} was lost: {:?}, {ask:?}, {recalled:?}", diary.said(word)));
        let of_it = recalled.reminders.iter().find(|reminder| reminder.message == found.message);
        let shown = of_it.is_some_and(|reminder| reminder.excerpt || reminder.text.contains(&diary.text(word)));
        let said = diary.said(word);
        assert!(shown || found.fate == Fate::Duplicate, "{turn} was not shown: {said:?}, {ask:?}, {recalled:?}");
    }

    /// A word of anybody's.
    fn any_word(&self, dice: &mut Dice) -> String {
        let diary = self.places[dice.below(self.places.len())].diary();
        diary.text(dice.below(diary.count() + 1))
    }

    /// Every message of the scope, as recall knows it.
    async fn looks_at_all(&self, place: &Place) {
        let began = place.diary().now();
        let ask = Ask { question: TALK[0].to_owned(), ..Ask::default() };
        let table = self.house.memory.recall_signals(&place.scope, &ask).await.expect("recalled");
        count(&self.tally.recalls);
        place.diary().check_turns(table.messages.iter().map(|message| message.turn()), began);
    }

    // --- What goes on beside it --------------------------------------------------------------------------

    /// Makes rows as long as there is something to do; halfway, all of them anew.
    async fn derive(self: Arc<Self>) {
        let mut again = false;
        loop {
            let derived = self.house.memory.derive_rows().await.expect("derived");
            self.tally.derived.fetch_add(derived.rows as u64, Ordering::Relaxed);
            let over = self.over.load(Ordering::Relaxed);
            if over && derived.is_nothing() {
                return;
            }
            if !again && self.tally.deeds.load(Ordering::Relaxed) > self.deeds / 2 {
                again = true;
                self.house.store.recall_again(Todo::Row).await.expect("all again");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Time passes.
    async fn age(self: Arc<Self>) {
        while !self.over.load(Ordering::Relaxed) {
            self.passes(STEP).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn passes(&self, time: SignedDuration) {
        self.house.clock.advance(time);
        let now = self.house.clock.reading().wall;
        let overdue: Vec<_> = self.places.iter().map(|place| place.diary().overdue(now)).collect();
        let report = self.house.memory.cleanup(&self.house.watch).await;
        assert_eq!(report.errors, Vec::<String>::new());
        self.tally.expired.fetch_add(report.turns_deleted, Ordering::Relaxed);
        for (place, overdue) in self.places.iter().zip(&overdue).filter(|(_, overdue)| !overdue.is_empty()) {
            place.diary().gone(overdue);
        }
    }

    /// When all is quiet: each scope recalls exactly what it should.
    async fn ends(&self) {
        self.passes(LIFE + LIFE).await;
        for place in &self.places {
            let ask = Ask { question: TALK[0].to_owned(), ..Ask::default() };
            let table = self.house.memory.recall_signals(&place.scope, &ask).await.expect("recalled");
            place.diary().check_all(&table.messages);
            let (bytes, _) = self.house.memory.recall_desk().index_size(&place.scope).await.expect("a size");
            assert!(bytes < INDEX_BYTES_MAX / 2, "an index of {bytes} bytes leaves no room for others");
        }
    }
}

fn proxied(session: SessionId, body: Value) -> ProxyRequest {
    let Value::Object(body) = body else { panic!("an object") };
    let passed = Passed {
        method: Method::POST,
        path: "chat/completions".into(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        bearer: None,
    };
    ProxyRequest {
        live: None,
        session: Some(session),
        new_session: session,
        alone: false,
        resends_history: true,
        seed: SessionSeed::default(),
        body,
        ids: ClientIds::default(),
        marked_as_retry: false,
        mode: Mode::Active,
        passed,
    }
}

/// Waits for all tasks; the first that panics ends the campaign.
async fn join(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// C10, P9: whatever happens at the same time in however many scopes, nobody is shown what is somebody else's or was
/// deleted, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_crosses_scopes_or_outlives_its_deletion() {
    let (scopes, seed) = (from_environment("RECALLD_SCOPES", SCOPES), from_environment("RECALLD_SEED", 1));
    let started = Instant::now();
    let campaign = Arc::new(Campaign::open(scopes));
    let mut beside = JoinSet::new();
    beside.spawn(Arc::clone(&campaign).derive());
    beside.spawn(Arc::clone(&campaign).age());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(Arc::clone(&campaign).work(Dice(seed << 32 | task)));
    }
    join(tasks).await;
    campaign.over.store(true, Ordering::Relaxed);
    join(beside).await;
    let seconds = started.elapsed().as_secs_f64();
    campaign.ends().await;

    let tally = &campaign.tally;
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{scopes} scopes, {} deeds in {seconds:.1} s (checked at the end in {:.1} s): {} turns added, {} chatted, {} \
         sessions deleted, {} turns expired, {} rows derived; {} recalls, {} of them for a certain message",
        campaign.deeds,
        started.elapsed().as_secs_f64() - seconds,
        of(&tally.turns),
        of(&tally.chats),
        of(&tally.deletions),
        of(&tally.expired),
        of(&tally.derived),
        of(&tally.recalls),
        of(&tally.wanted),
    );
    let all = [&tally.turns, &tally.chats, &tally.deletions, &tally.expired, &tally.wanted];
    assert!(all.into_iter().all(|counter| of(counter) > scopes / 4), "something was hardly tried");
}
