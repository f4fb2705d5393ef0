//! What recall keeps of turns: always of the turn as it is, seen by its owner only, and never missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Talk;
use super::talk::{assistant, at, draft, expire, tool_call, tool_result, turn_id, user};
use crate::id::{SessionId, TurnId};
use crate::period::{Period, Ttl};
use crate::scope::Scope;
use crate::session::{ClosedTurn, OpenTurn, Placement, ReviseTurn, Shift, Turn, TurnStatus};
use crate::store::{
    ChangeMark, Changes, DerivedRow, DueTurn, RecallEntry, RecallKept, Store, StoreError, TRACE_BYTES_MAX, Todo,
};

/// Who makes the vectors here.
pub(super) const EMBEDDER: &str = "embedder-1";

/// What these promises derive from a turn: all its words.
pub(super) fn derive(turn: &Turn) -> Vec<u8> {
    turn.messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join("|").into_bytes()
}

/// A row for a turn on the list, with vectors still to come.
pub(super) fn derived(due: &DueTurn) -> DerivedRow {
    DerivedRow {
        scope: due.scope.clone(),
        turn: due.turn.id,
        stamp: due.stamp,
        row: Some(derive(&due.turn)),
        vectors: None,
        then: Some(Todo::Vector),
    }
}

/// Vectors for a turn on the list.
pub(super) fn embedded(due: &DueTurn, embedder: &str) -> DerivedRow {
    let vectors = Some((embedder.to_owned(), vectors_of(&derive(&due.turn))));
    DerivedRow { row: None, vectors, then: None, ..derived(due) }
}

/// And from a row.
pub(super) fn vectors_of(row: &[u8]) -> Vec<u8> {
    row.iter().rev().copied().collect()
}

/// What an index holds of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Indexed {
    session: SessionId,
    number: u64,
    row: Vec<u8>,
    vectors: Option<Vec<u8>>,
}

pub(super) type Index = BTreeMap<TurnId, Indexed>;

fn indexed(entry: RecallEntry) -> (TurnId, Indexed) {
    let (row, vectors) = match entry.kept {
        RecallKept::Row { row, vectors } => (row, vectors),
        RecallKept::Turn(turn) => (derive(&turn), None),
    };
    (entry.turn, Indexed { session: entry.session, number: entry.number, row, vectors })
}

/// All entries of a scope, read in small pages.
pub(super) async fn load(store: &Arc<dyn Store>, scope: &Scope) -> Vec<RecallEntry> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.recall_entries(scope, EMBEDDER, after, 3).await.expect("a page");
        assert_eq!(page.damaged, 0);
        all.extend(page.entries);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

pub(super) async fn load_index(store: &Arc<dyn Store>, scope: &Scope) -> Index {
    load(store, scope).await.into_iter().map(indexed).collect()
}

/// An index that follows a scope by its changes.
pub(super) struct Follower {
    pub(super) scope: Scope,
    pub(super) index: Index,
    mark: Option<ChangeMark>,
}

impl Follower {
    pub(super) fn of(scope: &Scope) -> Self {
        Self { scope: scope.clone(), index: Index::new(), mark: None }
    }

    /// Applies what changed; answers the turns that were named, `None` when all was read again.
    pub(super) async fn follow(&mut self, store: &Arc<dyn Store>) -> Option<Vec<TurnId>> {
        let changes = store.recall_changes(&self.scope, self.mark, EMBEDDER).await.expect("the changes");
        let (mark, named) = match changes {
            Changes::None(mark) => (mark, Some(Vec::new())),
            Changes::Turns { mark, entries, gone } => {
                let mut named: Vec<TurnId> = entries.iter().map(|entry| entry.turn).chain(gone.clone()).collect();
                named.sort_unstable();
                self.index.extend(entries.into_iter().map(indexed));
                gone.iter().for_each(|turn| drop(self.index.remove(turn)));
                (mark, Some(named))
            }
            Changes::Reload { mark } => {
                self.index = load_index(store, &self.scope).await;
                (mark, None)
            }
        };
        assert!(self.mark <= Some(mark), "marks go forward");
        self.mark = Some(mark);
        named
    }
}

impl Talk {
    pub(super) async fn due(&self, what: Todo) -> Vec<DueTurn> {
        self.store.recall_todo(what, 1_000).await.expect("the list")
    }

    /// Makes all rows, and vectors too.
    pub(super) async fn derive_all(&self) {
        let rows = self.due(Todo::Row).await.iter().map(derived).collect();
        self.store.keep_recall_rows(rows).await.expect("the rows are kept");
        let vectors = self.due(Todo::Vector).await.iter().map(|due| embedded(due, EMBEDDER)).collect();
        self.store.keep_recall_rows(vectors).await.expect("the vectors are kept");
    }

    pub(super) async fn revise_with(&self, id: TurnId, shift: Shift) -> Result<u32, StoreError> {
        let turn = ReviseTurn { id, session: self.session, ids: Default::default(), then: Vec::new(), shift };
        self.store.revise_turn(&self.scope, turn).await.map(|revised| revised.attempt)
    }

    /// Asks a question and hides or shows others with it.
    pub(super) async fn ask_with(&self, text: &str, shift: Shift) -> TurnId {
        let place = Placement { shift, ..Placement::default() };
        let open = OpenTurn { place, ..self.question(text) };
        let id = open.id;
        self.open(open).await;
        id
    }

    async fn close_with(&self, id: TurnId, attempt: u32, trace: &str) {
        let ending = self.ending(id, TurnStatus::Complete, vec![assistant("so")]);
        let closed = ClosedTurn { attempt, trace: Some(trace.to_owned()), ..ending };
        self.try_close(closed).await.expect("the ending is written");
    }

    async fn entries(&self) -> Vec<TurnId> {
        load(&self.store, &self.scope).await.iter().map(|entry| entry.turn).collect()
    }
}

fn hide(number: u64) -> Shift {
    Shift { hide: vec![number], ..Shift::default() }
}

fn show(number: u64) -> Shift {
    Shift { show: vec![number], ..Shift::default() }
}

fn kind(entry: &RecallEntry) -> &'static str {
    match &entry.kept {
        RecallKept::Row { vectors: Some(_), .. } => "row and vectors",
        RecallKept::Row { vectors: None, .. } => "row",
        RecallKept::Turn(_) => "turn",
    }
}

/// What is said is there at once as a turn, later as a row, and over all sessions.
pub async fn what_is_added_can_be_recalled(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let chat = talk.exchange("how?", "so").await;
    let added = talk.another().add((0..5).map(|n| draft(&n.to_string(), "yes")).collect()).await;
    let entries = load(&store, &talk.scope).await;
    assert_eq!(entries.iter().map(|entry| entry.turn).next(), Some(chat));
    assert_eq!(entries.iter().map(kind).collect::<Vec<_>>(), ["turn"; 6]);
    assert_eq!(entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 1, 2, 3, 4, 5]);
    let turns: Vec<_> = entries
        .iter()
        .filter_map(|entry| if let RecallKept::Turn(t) = &entry.kept { Some(&**t) } else { None })
        .collect();
    assert_eq!(turns[1..].iter().copied().cloned().collect::<Vec<_>>(), added);

    let due = talk.due(Todo::Row).await;
    assert_eq!(due.iter().map(|due| due.turn.id).collect::<Vec<_>>(), talk.entries().await, "oldest first");
    assert!(talk.due(Todo::Vector).await.is_empty());
    assert_eq!(store.recall_todo(Todo::Row, 2).await.expect("the list").len(), 2);
    let before = load_index(&store, &talk.scope).await;
    store.keep_recall_rows(due.iter().map(derived).collect()).await.expect("the rows are kept");
    assert!(talk.due(Todo::Row).await.is_empty());
    assert_eq!(talk.due(Todo::Vector).await.len(), 6);
    let entries = load(&store, &talk.scope).await;
    assert_eq!(entries.iter().map(kind).collect::<Vec<_>>(), ["row"; 6]);
    assert_eq!(load_index(&store, &talk.scope).await, before, "a row says what its turn says");

    talk.derive_all().await;
    assert!(talk.due(Todo::Vector).await.is_empty());
    let entries = load(&store, &talk.scope).await;
    assert_eq!(entries.iter().map(kind).collect::<Vec<_>>(), ["row and vectors"; 6]);
    let others = store.recall_entries(&talk.scope, "embedder-2", None, 9).await.expect("a page").entries;
    assert_eq!(others.iter().map(kind).collect::<Vec<_>>(), ["row"; 6], "vectors are for their embedder");
}

/// What has no answer, or is hidden, is not recalled, and nothing is derived from it.
pub async fn pending_failed_and_superseded_turns_are_not(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let first = talk.exchange("first", "so").await;
    talk.ask("pending").await;
    let failed = talk.ask("failed").await;
    talk.try_close(talk.ending(failed, TurnStatus::Failed, Vec::new())).await.expect("it fails");
    let partial = talk.ask("partial").await;
    talk.end(partial, TurnStatus::Partial, "so f").await;
    assert_eq!(talk.entries().await, [first, partial]);
    assert_eq!(talk.due(Todo::Row).await.len(), 2);
    talk.derive_all().await;
    talk.ask_with("edit", hide(1)).await;
    assert_eq!(talk.entries().await, [partial]);
    talk.ask_with("back", show(1)).await;
    assert_eq!(talk.entries().await, [first, partial]);
    let due: Vec<TurnId> = talk.due(Todo::Row).await.iter().map(|due| due.turn.id).collect();
    assert_eq!(due, [first]);
    talk.ask_with("edit again", hide(1)).await;
    assert!(talk.due(Todo::Row).await.is_empty(), "nothing is made of what is hidden");
}

/// What was derived from a session goes with it.
pub async fn a_deleted_session_leaves_no_rows(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.exchange("how?", "so").await;
    talk.derive_all().await;
    let late = talk.exchange("late", "so").await;
    let traced = talk.ask("traced").await;
    talk.close_with(traced, 0, "{}").await;
    let due = talk.due(Todo::Row).await;
    talk.delete().await;
    assert!(talk.entries().await.is_empty());
    assert!(talk.due(Todo::Row).await.is_empty() && talk.due(Todo::Vector).await.is_empty());
    store.keep_recall_rows(due.iter().map(derived).collect()).await.expect("what went is passed over");
    assert!(talk.entries().await.is_empty());
    assert_eq!(store.turns_by_id(&talk.scope, &[late]).await.expect("a look"), []);
    assert_eq!(store.trace(&talk.scope, traced).await.expect("a look"), None);
    talk.add_at(0).await;
    talk.derive_all().await;
    expire(&store, at(10), Ttl::of(Period::seconds(5)), 9).await;
    assert!(talk.entries().await.is_empty());
}

/// Whatever changes what a turn says makes its row stale at once, and one that was made of the old words is not kept.
pub async fn a_turn_that_changed_is_derived_anew(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.exchange("how?", "so").await;
    talk.derive_all().await;
    let attempt = talk.revise_with(id, Shift::default()).await.expect("another try");
    assert!(talk.entries().await.is_empty(), "it is pending");
    let closed = ClosedTurn { attempt, ..talk.ending(id, TurnStatus::Complete, vec![assistant("or so")]) };
    talk.try_close(closed).await.expect("the ending is written");
    let entries = load(&store, &talk.scope).await;
    assert_eq!(entries.iter().map(kind).collect::<Vec<_>>(), ["turn"], "the old row and vectors are gone");
    let old = talk.due(Todo::Row).await;

    let shift = Shift { activate: vec![(1, 0)], ..Shift::default() };
    talk.ask_with("and?", shift).await;
    store.keep_recall_rows(old.iter().map(derived).collect()).await.expect("it is passed over");
    let entries = load(&store, &talk.scope).await;
    assert_eq!(entries.iter().map(kind).collect::<Vec<_>>(), ["turn"], "what was made of the old words is not kept");
    let due = talk.due(Todo::Row).await;
    store.keep_recall_rows(due.iter().map(derived).collect()).await.expect("the row is kept");
    let entries = load(&store, &talk.scope).await;
    assert_eq!(entries.iter().map(kind).collect::<Vec<_>>(), ["row"], "the vectors of the old words are gone");
    assert_eq!(load_index(&store, &talk.scope).await[&id].row, b"how?|so");

    let loose = talk.another();
    let asked = loose.say(vec![user("weather?")]).await.expect("added")[0].id;
    loose.derive_all().await;
    loose.say(vec![assistant("rain")]).await.expect("the answer joins");
    assert_eq!(loose.due(Todo::Row).await.iter().map(|due| due.turn.id).collect::<Vec<_>>(), [asked]);
    assert_eq!(load_index(&store, &talk.scope).await[&asked].row, b"weather?|rain");
}

/// A new row format or embedder makes everything anew; rows count as missing, vectors are served meanwhile.
pub async fn everything_can_be_derived_again(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for what in [Todo::Row, Todo::Vector] {
        assert_eq!(store.recall_made_with(what).await.expect("a look"), None);
    }
    store.note_recall_made_with(Todo::Row, "2").await.expect("noted");
    store.note_recall_made_with(Todo::Row, "3").await.expect("noted");
    store.note_recall_made_with(Todo::Vector, EMBEDDER).await.expect("noted");
    assert_eq!(store.recall_made_with(Todo::Row).await.expect("a look").as_deref(), Some("3"));
    assert_eq!(store.recall_made_with(Todo::Vector).await.expect("a look").as_deref(), Some(EMBEDDER));

    talk.add((0..3).map(|n| draft(&n.to_string(), "yes")).collect()).await;
    talk.derive_all().await;
    let kinds = || async { load(&store, &talk.scope).await.iter().map(kind).collect::<Vec<_>>() };
    assert_eq!(store.recall_again(Todo::Vector).await.expect("listed"), 3);
    assert_eq!(kinds().await, ["row and vectors"; 3]);
    let other = talk.due(Todo::Vector).await.iter().map(|due| embedded(due, "embedder-2")).collect();
    store.keep_recall_rows(other).await.expect("the vectors are kept");
    assert_eq!(kinds().await, ["row"; 3], "another embedder's take their place");
    let others = store.recall_entries(&talk.scope, "embedder-2", None, 9).await.expect("a page").entries;
    assert_eq!(others.iter().map(kind).collect::<Vec<_>>(), ["row and vectors"; 3]);

    store.recall_again(Todo::Vector).await.expect("listed");
    talk.derive_all().await;
    assert_eq!(store.recall_again(Todo::Row).await.expect("listed"), 3);
    assert_eq!(kinds().await, ["turn"; 3]);
    let rows = talk.due(Todo::Row).await.iter().map(derived).collect();
    store.keep_recall_rows(rows).await.expect("the rows are kept");
    assert_eq!(kinds().await, ["row and vectors"; 3], "vectors of the same words need not be made again");
    assert!(talk.due(Todo::Vector).await.is_empty());

    store.recall_again(Todo::Vector).await.expect("listed");
    let hopeless = |due: &DueTurn| DerivedRow { row: None, then: None, ..derived(due) };
    let given_up = talk.due(Todo::Vector).await.iter().map(hopeless).collect();
    store.keep_recall_rows(given_up).await.expect("they are struck off");
    assert!(talk.due(Todo::Vector).await.is_empty());
}

/// Every touched turn is named once it is answered, and nothing else is.
pub async fn changes_name_every_touched_turn(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let mut follower = Follower::of(&talk.scope);
    assert_eq!(follower.follow(&store).await, None, "nobody watched");
    assert_eq!(follower.follow(&store).await, Some(vec![]));
    let one = talk.ask("one").await;
    assert_eq!(follower.follow(&store).await, Some(vec![]), "a question is not recalled");
    talk.end(one, TurnStatus::Complete, "so").await;
    assert_eq!(follower.follow(&store).await, Some(vec![one]));
    let mut added: Vec<TurnId> =
        talk.add(vec![draft("two", "so"), draft("three", "so")]).await.iter().map(|t| t.id).collect();
    added.sort_unstable();
    assert_eq!(follower.follow(&store).await, Some(added));
    let rows = talk.due(Todo::Row).await.iter().map(derived).collect();
    store.keep_recall_rows(rows).await.expect("the rows are kept");
    assert_eq!(follower.follow(&store).await, Some(vec![]), "a row is what the reader derived");
    talk.derive_all().await;
    assert_eq!(follower.follow(&store).await.map(|named| named.len()), Some(3), "vectors are news");
    talk.ask_with("edit", hide(1)).await;
    assert_eq!(follower.follow(&store).await, Some(vec![one]));
    assert_eq!(follower.index.len(), 2);
    talk.revise_with(one, Shift::default()).await.expect("another try");
    store.fail_abandoned().await.expect("marked");
    assert_eq!(follower.follow(&store).await, Some(vec![one]), "its old answer is shown again");
    talk.of("acme", "bob").exchange("bob's", "so").await;
    assert_eq!(follower.follow(&store).await, Some(vec![]));
    talk.delete().await;
    assert_eq!(follower.follow(&store).await.map(|named| named.len()), Some(3));
    assert_eq!(follower.index, Index::new());
    store.unwatch(&talk.scope);
    assert_eq!(follower.follow(&store).await, None);
}

/// Whoever missed more than is remembered reads everything again.
pub async fn too_many_changes_are_a_reload(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let mut follower = Follower::of(&talk.scope);
    follower.follow(&store).await;
    for _ in 0..2 {
        talk.add((0..1_000).map(|n| draft(&n.to_string(), "yes")).collect()).await;
    }
    assert_eq!(follower.follow(&store).await, None);
    assert_eq!(follower.index.len(), 2_000);
    talk.exchange("one more", "so").await;
    assert_eq!(follower.follow(&store).await.map(|named| named.len()), Some(1));
    assert_eq!(follower.index.len(), 2_001);
}

/// What is one user's is nobody else's, on the list, in the entries and when it is kept.
pub async fn one_scope_never_sees_anothers_rows(store: Arc<dyn Store>) {
    let ann = Talk::new(&store);
    let others = [ann.of("acme", "bob"), ann.of("other", "ann")];
    let id = ann.exchange("ann's", "so").await;
    for other in &others {
        other.exchange("another's", "so").await;
    }
    let due = ann.due(Todo::Row).await;
    assert_eq!(
        due.iter().map(|due| due.scope.clone()).collect::<Vec<_>>(),
        [&ann, &others[0], &others[1]].map(|talk| talk.scope.clone())
    );
    let forged = DerivedRow { scope: others[0].scope.clone(), row: Some(b"forged".to_vec()), ..derived(&due[0]) };
    store.keep_recall_rows(vec![forged]).await.expect("it is passed over");
    assert_eq!(ann.due(Todo::Row).await.len(), 3);
    ann.derive_all().await;
    for talk in others.iter().chain([&ann]) {
        let index = load_index(&store, &talk.scope).await;
        assert_eq!(index.len(), 1);
        assert_eq!(index.contains_key(&id), talk.scope == ann.scope);
        assert_eq!(
            store.turns_by_id(&talk.scope, &[id]).await.expect("a look").len(),
            usize::from(talk.scope == ann.scope)
        );
    }
}

/// Why something was recalled is told to its owner, until the answer is tried again.
pub async fn a_trace_comes_back_to_its_owner_only(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let id = talk.ask("how?").await;
    let trace = |id| store.trace(&talk.scope, id);
    assert_eq!(trace(id).await.expect("a look"), None);
    talk.close_with(id, 0, r#"{"recalled": 3}"#).await;
    assert_eq!(trace(id).await.expect("a look").as_deref(), Some(r#"{"recalled": 3}"#));
    assert_eq!(store.trace(&talk.of("acme", "bob").scope, id).await.expect("a look"), None);
    talk.close_with(id, 0, "late").await;
    assert_eq!(trace(id).await.expect("a look").as_deref(), Some(r#"{"recalled": 3}"#), "the first ending stands");
    let attempt = talk.revise_with(id, Shift::default()).await.expect("another try");
    assert_eq!(trace(id).await.expect("a look"), None);
    talk.close_with(id, attempt, "new").await;
    assert_eq!(trace(id).await.expect("a look").as_deref(), Some("new"));
    for (bytes, kept) in [(TRACE_BYTES_MAX, true), (TRACE_BYTES_MAX + 1, false)] {
        let id = talk.ask("long").await;
        talk.close_with(id, 0, &"x".repeat(bytes)).await;
        assert_eq!(trace(id).await.expect("a look").is_some(), kept);
        assert_eq!(talk.turns().await.last().map(|turn| turn.status), Some(TurnStatus::Complete));
    }
}

/// Turns come back in the order they were asked for; what may not be shown is left out.
pub async fn turns_by_id_keeps_the_order_and_the_scope(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let one = talk.exchange("one", "so").await;
    let two = talk.another().exchange("two", "so").await;
    let hidden = talk.exchange("three", "so").await;
    let pending = talk.ask_with("four", hide(2)).await;
    let foreign = talk.of("acme", "bob").exchange("bob's", "so").await;
    let mut ids = vec![two, pending, turn_id(), foreign, one, hidden, two];
    let found = store.turns_by_id(&talk.scope, &ids).await.expect("a look");
    assert_eq!(found.iter().map(|turn| turn.id).collect::<Vec<_>>(), [two, one, two]);
    assert_eq!(Some(&found[1]), store.turn(&talk.scope, one).await.expect("a look").as_ref());
    ids.extend((0..100).map(|_| one));
    assert_eq!(store.turns_by_id(&talk.scope, &ids).await.expect("a look").len(), 103);
    assert_eq!(store.turns_by_id(&talk.scope, &[]).await.expect("a look"), []);
}

/// Tool rounds: a turn is recalled from its first call on, and its removal meanwhile is noticed.
pub async fn a_turn_is_recalled_while_its_tools_are_at_work(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let mut follower = Follower::of(&talk.scope);
    follower.follow(&store).await;
    let id = talk.ask("weather?").await;
    let round = |status, message| talk.ending(id, status, vec![message]);
    assert_eq!(follower.follow(&store).await, Some(vec![]), "nothing was answered yet");
    for (status, message) in [
        (TurnStatus::Pending, tool_call()),
        (TurnStatus::Pending, tool_result()),
        (TurnStatus::Complete, assistant("rain")),
    ] {
        talk.try_close(round(status, message)).await.expect("a round");
        assert_eq!(talk.due(Todo::Row).await.len(), 1, "{status:?}");
        talk.derive_all().await;
        assert_eq!(follower.follow(&store).await, Some(vec![id]), "{status:?}");
        assert_eq!(follower.index, load_index(&store, &talk.scope).await);
        let recent = store.last_turns(&talk.scope, talk.session, 10).await.expect("the end");
        assert_eq!(recent.turns.iter().map(|turn| turn.id).collect::<Vec<_>>(), [id], "{status:?}");
    }
    let other = talk.ask("and tomorrow?").await;
    talk.try_close(talk.ending(other, TurnStatus::Pending, vec![tool_call()])).await.expect("the call");
    talk.derive_all().await;
    follower.follow(&store).await;
    store.delete_session(&talk.scope, talk.session).await.expect("deleted");
    follower.follow(&store).await;
    assert!(follower.index.is_empty(), "{:?}", follower.index.keys());
}
