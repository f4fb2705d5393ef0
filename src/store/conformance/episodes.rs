//! What conversations were summarised to: written whole or not at all, and marked when it is no longer so.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Talk;
use super::talk::{at, expire};
use crate::episode::{Episode, Level, Meaning};
use crate::id::EpisodeId;
use crate::job::JobKind;
use crate::period::{Period, Ttl};
use crate::session::{OpenTurn, Placement, ReviseTurn, Shift, TurnStatus};
use crate::store::{
    ChangeMark, Claim, Consolidation, DueEpisode, Effect, EpisodeChanges, Finished, Limits, PageRequest, Progress,
    ReadRange, Store, Stretch, Wanted,
};

const LIMITS: Limits = Limits { turns: 100, stale: 8 };

async fn claim(store: &Arc<dyn Store>) -> Option<Claim> {
    let now: Timestamp = "2100-01-01T00:00:00Z".parse().expect("a time");
    store.jobs().claim(None, now, SignedDuration::from_mins(1)).await.expect("jobs are claimed")
}

pub(super) fn told(talk: &Talk, first: u64, last: u64) -> Episode {
    Episode {
        id: EpisodeId::beginning(talk.session, "stretch", first, at(0)),
        session: talk.session,
        level: Level::Stretch,
        first,
        last,
        weight: (last - first + 1) as usize,
        from: at(first as i64),
        to: at(last as i64),
        summary: format!("turns {first} to {last}"),
        vector: Some(Meaning { embedder: "e-1".into(), values: vec![0.5, -1.0, 0.25] }),
        made_by: "test".into(),
        version: 1,
    }
}

pub(super) async fn progress(talk: &Talk) -> Progress {
    let found = talk.store.episodes().progress(&talk.scope, talk.session, LIMITS).await;
    found.expect("progress is read").expect("the session is there")
}

async fn stretch(talk: &Talk, first: u64, last: u64) -> Stretch {
    talk.store.episodes().stretch(&talk.scope, talk.session, first, last).await.expect("turns are read")
}

/// What a run that read these turns comes to.
pub(super) async fn telling(talk: &Talk, from: u64, episodes: Vec<Episode>) -> Consolidation {
    let (first, last) = (episodes[0].first, episodes.last().expect("some").last);
    let read = vec![ReadRange { first, last, stamp: stretch(talk, first, last).await.stamp }];
    let to = last.max(from);
    Consolidation { from, to, read, keep: episodes, drop: Vec::new(), settled: Vec::new(), more: false }
}

pub(super) async fn apply(talk: &Talk, done: Consolidation) -> Finished {
    let asked = talk.store.jobs().enqueue(&talk.scope, talk.session, JobKind::CONSOLIDATE).await;
    assert!(asked.expect("asked for"));
    let held = claim(&talk.store).await.expect("it is due");
    talk.store.jobs().finish(&held, Effect::Consolidate(Box::new(done))).await.expect("it is ended")
}

pub(super) async fn list(talk: &Talk) -> Vec<Episode> {
    let page = talk.store.episodes().list(&talk.scope, Some(talk.session), PageRequest::first(50)).await;
    page.expect("episodes are read").items
}

/// Some turns, the first of them told.
async fn begun(store: &Arc<dyn Store>) -> Talk {
    let talk = Talk::new(store);
    for second in 1..=6 {
        talk.add_at(second).await;
    }
    let done = telling(&talk, 0, vec![told(&talk, 1, 4)]).await;
    assert_eq!(apply(&talk, done).await, Finished::Done);
    talk
}

/// An episode comes back as it was written, to its owner only.
pub async fn episodes_come_back_as_they_were_told(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    assert_eq!(list(&talk).await, [told(&talk, 1, 4)]);
    assert_eq!(list(&talk.of("acme", "bob")).await, []);
    assert_eq!(list(&talk.of("other", "ann")).await, []);
    let all = store.episodes().list(&talk.scope, None, PageRequest::first(1)).await.expect("read");
    assert_eq!((all.items.len(), all.next), (1, None));
    let now = progress(&talk).await;
    assert_eq!((now.consolidated, now.begins, now.last, now.last_is_whole), (4, 5, Some(told(&talk, 1, 4)), true));
    assert_eq!(now.leaving.iter().map(|turn| turn.number).collect::<Vec<_>>(), [5, 6]);
    let foreign = talk.of("acme", "bob");
    assert_eq!(store.episodes().progress(&foreign.scope, foreign.session, LIMITS).await.expect("read"), None);
}

/// The same effect twice is one effect, and nothing is told twice.
pub async fn an_effect_is_applied_once(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    let again = telling(&talk, 0, vec![Episode { summary: "otherwise".into(), ..told(&talk, 1, 4) }]).await;
    assert_eq!(apply(&talk, again).await, Finished::Changed, "the session has gone on");
    assert_eq!(list(&talk).await, [told(&talk, 1, 4)]);
    let same_version = telling(&talk, 4, vec![Episode { summary: "otherwise".into(), ..told(&talk, 1, 4) }]).await;
    let held = claim(&store).await.expect("it waits again");
    let done = store.jobs().finish(&held, Effect::Consolidate(Box::new(same_version))).await.expect("it is ended");
    assert_eq!((done, list(&talk).await), (Finished::Done, vec![told(&talk, 1, 4)]));
}

/// What was read and has changed since is not told; the job waits to look again.
pub async fn what_changed_meanwhile_is_not_told(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let ids = [talk.exchange("one", "yes").await, talk.exchange("two", "yes").await];
    let done = telling(&talk, 0, vec![told(&talk, 1, 2)]).await;
    revise(&talk, ids[0], "no").await;
    assert_eq!(apply(&talk, done).await, Finished::Changed);
    assert_eq!((list(&talk).await, progress(&talk).await.consolidated), (vec![], 0));
    let done = telling(&talk, 0, vec![told(&talk, 1, 2)]).await;
    let held = claim(&store).await.expect("it waits again");
    assert_eq!(store.jobs().finish(&held, Effect::Consolidate(Box::new(done))).await.expect("ended"), Finished::Done);
}

/// Hours and the session are told by summaries. Where a turn of one changes while they are, they are not kept, and it is done again as if
/// nothing had been tried.
pub async fn what_is_told_of_a_changed_turn_begins_again(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    assert!(store.jobs().enqueue(&talk.scope, talk.session, JobKind::CONSOLIDATE).await.expect("asked for"));
    let held = claim(&store).await.expect("it is due");
    let session = Episode { level: Level::Session, ..told(&talk, 1, 4) };
    let done = Consolidation { read: Vec::new(), ..telling(&talk, 4, vec![session]).await };
    revise(&talk, talk.turns().await[1].id, "no").await;
    let late = store.jobs().finish(&held, Effect::Consolidate(Box::new(done))).await.expect("it is ended");
    assert_eq!((late, progress(&talk).await.session), (Finished::Lost, None));
    assert_eq!(claim(&store).await.expect("it waits again").job.attempts, 1);
}

async fn revise(talk: &Talk, id: crate::id::TurnId, answer: &str) {
    let (ids, shift) = Default::default();
    let revised = ReviseTurn { id, session: talk.session, ids, then: Vec::new(), shift };
    let revised = talk.store.revise_turn(&talk.scope, revised).await.expect("another try begins");
    let mut ending = talk.ending(id, TurnStatus::Complete, vec![super::talk::assistant(answer)]);
    ending.attempt = revised.attempt;
    talk.try_close(ending).await.expect("the ending is written");
}

async fn stale(talk: &Talk) -> Vec<u64> {
    progress(talk).await.stale.iter().map(|stretch| stretch.first).collect()
}

/// Tells a stretch anew, so that it is no longer stale.
async fn settle(talk: &Talk, version: u32) {
    let done = telling(talk, 4, vec![Episode { version, ..told(talk, 1, 4) }]).await;
    let held = claim(&talk.store).await.expect("a change asks for a job");
    assert_eq!(
        talk.store.jobs().finish(&held, Effect::Consolidate(Box::new(done))).await.expect("ended"),
        Finished::Done
    );
    assert_eq!(stale(talk).await, Vec::<u64>::new());
}

/// Another answer, a hidden turn, a turn that is shown again: whatever an episode tells that changes is told anew.
pub async fn a_changed_turn_makes_its_episode_stale(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    let turns = talk.turns().await;
    assert_eq!(stale(&talk).await, Vec::<u64>::new());
    revise(&talk, turns[1].id, "no").await;
    assert_eq!(stale(&talk).await, [1]);
    settle(&talk, 2).await;
    for (version, shift) in
        [(3, Shift { hide: vec![4, 5, 6], ..Shift::default() }), (4, Shift { show: vec![4], ..Shift::default() })]
    {
        let place = Placement { shift, ..Placement::default() };
        let id = talk.question("otherwise");
        let id = OpenTurn { place, ..id };
        talk.open(id).await;
        assert_eq!(stale(&talk).await, [1]);
        settle(&talk, version).await;
    }
    revise(&talk, turns[4].id, "no").await;
    assert_eq!(stale(&talk).await, Vec::<u64>::new(), "turn 5 is not told yet");
}

/// A turn that ends after those behind it were told belongs to what is told of its place.
pub async fn a_late_answer_makes_its_episode_stale(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.add_at(1).await;
    let waiting = talk.ask("and?").await;
    talk.add_at(3).await;
    let done = telling(&talk, 0, vec![told(&talk, 1, 3)]).await;
    assert_eq!(apply(&talk, done).await, Finished::Done);
    assert_eq!(stretch(&talk, 1, 3).await.turns.len(), 2);
    talk.end(waiting, TurnStatus::Complete, "so").await;
    assert_eq!((stale(&talk).await, stretch(&talk, 1, 3).await.turns.len()), (vec![1], 3));
    assert!(claim(&store).await.is_some(), "a change asks for a job");
}

/// Episodes are listed in pages, and found by level, hour and turn.
pub async fn episodes_are_found_by_level_hour_and_turn(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for second in 1..=6 {
        talk.add_at(second).await;
    }
    let later = SignedDuration::from_hours(2);
    let episodes = vec![
        told(&talk, 1, 2),
        Episode { from: told(&talk, 3, 4).from + later, ..told(&talk, 3, 4) },
        Episode { level: Level::Hour, id: EpisodeId::beginning(talk.session, "hour", 1, at(1)), ..told(&talk, 1, 4) },
    ];
    let done = telling(&talk, 0, episodes.clone()).await;
    assert_eq!(apply(&talk, done).await, Finished::Done);
    let page = store.episodes().list(&talk.scope, Some(talk.session), PageRequest::first(2)).await.expect("read");
    let rest = PageRequest { after: page.next, ..PageRequest::first(2) };
    let rest = store.episodes().list(&talk.scope, Some(talk.session), rest).await.expect("read");
    assert_eq!(([page.items, rest.items].concat(), rest.next), (episodes.clone(), None));
    let find = async |level, after, hour| {
        let wanted = Wanted { level, after, hour, limit: 9 };
        store.episodes().tier(&talk.scope, talk.session, wanted).await.expect("read")
    };
    assert_eq!(find(Level::Stretch, 0, None).await, episodes[..2]);
    assert_eq!(find(Level::Stretch, 1, None).await, episodes[1..2]);
    let hour = crate::episode::hour_of(episodes[1].from);
    assert_eq!(find(Level::Stretch, 0, Some(hour)).await, episodes[1..2]);
    assert_eq!(find(Level::Hour, 0, None).await, episodes[2..]);
}

/// Episodes go with their session.
pub async fn a_deleted_session_takes_its_episodes_along(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    talk.delete().await;
    assert_eq!(list(&talk).await, []);
    talk.add_at(1).await;
    assert_eq!((list(&talk).await, progress(&talk).await.consolidated), (vec![], 0), "it begins anew");
}

/// What is told outlives the turns when those grow too old, and goes when a person removes the session.
pub async fn episodes_outlive_their_turns(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    expire(&store, at(102), Ttl::of(Period::seconds(100)), 10).await;
    let now = progress(&talk).await;
    assert_eq!((now.consolidated, now.begins, now.last_is_whole), (4, 5, false));
    assert!(!stretch(&talk, 1, 4).await.whole);
    expire(&store, at(200), Ttl::of(Period::seconds(100)), 10).await;
    assert_eq!((talk.find().await, list(&talk).await), (None, vec![told(&talk, 1, 4)]));
    talk.add_at(300).await;
    assert_eq!(progress(&talk).await.last, None, "another life");
    assert_eq!(list(&talk).await.len(), 1);
    assert_eq!((talk.delete().await, list(&talk).await), (Some(1), vec![]));
}

/// What is left of a session that expired can be removed as well.
pub async fn what_is_told_of_an_expired_session_can_be_deleted(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    expire(&store, at(1_000), Ttl::of(Period::seconds(1)), 10).await;
    assert_eq!((talk.find().await, talk.of("acme", "bob").delete().await), (None, None));
    assert_eq!((talk.delete().await, list(&talk).await, talk.delete().await), (Some(0), vec![], None));
}

/// Everything that can be told again is, for one user or for all; what tells of turns that are gone stays.
pub async fn what_can_be_told_again_is(store: Arc<dyn Store>) {
    let ann = begun(&store).await;
    let bob = ann.another().of("acme", "bob");
    for second in 1..=6 {
        bob.add_at(second).await;
    }
    let done = telling(&bob, 0, vec![told(&bob, 1, 2), told(&bob, 3, 4)]).await;
    assert_eq!(apply(&bob, done).await, Finished::Done);
    assert_eq!(store.episodes().make_again(Some(&ann.scope)).await.expect("done"), 1);
    assert_eq!((list(&ann).await, progress(&ann).await.consolidated, list(&bob).await.len()), (vec![], 0, 2));
    assert!(claim(&store).await.is_some_and(|claim| claim.scope == ann.scope), "it is asked for");
    expire(&store, at(102), Ttl::of(Period::seconds(100)), 10).await;
    assert_eq!(store.episodes().make_again(None).await.expect("done"), 1);
    assert_eq!((list(&bob).await, progress(&bob).await.consolidated), (vec![told(&bob, 1, 2)], 2));
}

async fn recallable(talk: &Talk) -> Vec<Episode> {
    let page = talk.store.episodes().recallable(&talk.scope, PageRequest::first(50)).await;
    page.expect("episodes are read").items
}

/// Somebody who holds a scope's summaries and follows what becomes of them.
struct Follower {
    mark: ChangeMark,
    held: Vec<Episode>,
}

impl Follower {
    async fn begin(talk: &Talk) -> Self {
        let EpisodeChanges::Reload { mark } =
            talk.store.episodes().changed_since(&talk.scope, None).await.expect("a mark")
        else {
            panic!("nobody has looked yet")
        };
        Self { mark, held: recallable(talk).await }
    }

    /// Takes in what changed; then it must hold what there is. Answers whether anything had.
    #[track_caller]
    fn follow<'a>(&'a mut self, talk: &'a Talk) -> impl Future<Output = bool> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let changes = talk.store.episodes().changed_since(&talk.scope, Some(self.mark)).await;
            let changed = match changes.expect("changes are read") {
                EpisodeChanges::None(mark) => {
                    self.mark = mark;
                    false
                }
                EpisodeChanges::Some { mark, told, gone } => {
                    self.mark = mark;
                    let touched = |id: EpisodeId| gone.contains(&id) || told.iter().any(|one| one.id == id);
                    self.held.retain(|held| !touched(held.id));
                    self.held.extend(told);
                    true
                }
                EpisodeChanges::Reload { .. } => panic!("{caller}: little happened"),
            };
            self.held.sort_by_key(|held| held.first);
            assert_eq!(self.held, recallable(talk).await, "{caller}");
            changed
        }
    }
}

/// Whoever follows what may be recalled holds what there is: told, stale, told anew, removed.
pub async fn what_may_be_recalled_can_be_followed(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    let mut follower = Follower::begin(&talk).await;
    assert_eq!((follower.held.len(), follower.follow(&talk).await), (1, false));
    revise(&talk, talk.turns().await[1].id, "no").await;
    assert_eq!((follower.follow(&talk).await, follower.held.len()), (true, 0), "it is no longer so");
    settle(&talk, 2).await;
    assert_eq!((follower.follow(&talk).await, follower.held.len()), (true, 1));
    let nothing = Episode { summary: String::new(), version: 3, ..told(&talk, 1, 4) };
    let moved =
        Episode { version: 3, id: EpisodeId::beginning(talk.session, "stretch", 1, at(1)), ..told(&talk, 1, 4) };
    for (made, left) in [(nothing, 0), (Episode { version: 4, ..moved }, 1)] {
        let done = telling(&talk, 4, vec![made]).await;
        assert_eq!(apply(&talk, done).await, Finished::Done);
        assert_eq!((follower.follow(&talk).await, follower.held.len()), (true, left));
    }
    let bob = talk.of("acme", "bob");
    assert_eq!(recallable(&bob).await, []);
    bob.add_at(1).await;
    let done = telling(&bob, 0, vec![told(&bob, 1, 1)]).await;
    assert_eq!(apply(&bob, done).await, Finished::Done);
    assert!(!follower.follow(&talk).await, "somebody else's");
    talk.delete().await;
    assert_eq!((follower.follow(&talk).await, follower.held.len()), (true, 0));
}

/// Vectors of another embedder are made anew, of summaries that are still as they were.
pub async fn another_embedder_makes_vectors_anew(store: Arc<dyn Store>) {
    let talk = begun(&store).await;
    let episodes = store.episodes();
    assert_eq!(episodes.to_embed("e-1", PageRequest::first(9)).await.expect("read").items, []);
    let due = episodes.to_embed("e-2", PageRequest::first(9)).await.expect("read").items;
    assert_eq!(due.iter().map(|due| (&due.scope, &*due.summary)).collect::<Vec<_>>(), [(&talk.scope, "turns 1 to 4")]);
    let mut follower = Follower::begin(&talk).await;
    let vector = Meaning { embedder: "e-2".into(), values: vec![1.0, 0.5] };
    let outdated = DueEpisode { version: 7, ..due[0].clone() };
    let made = vec![(outdated, Meaning { embedder: "e-3".into(), values: vec![] }), (due[0].clone(), vector.clone())];
    episodes.keep_vectors(made).await.expect("kept");
    assert!(follower.follow(&talk).await);
    assert_eq!(list(&talk).await[0].vector, Some(vector));
    assert_eq!(episodes.to_embed("e-2", PageRequest::first(9)).await.expect("read").items, []);
    assert_eq!(episodes.embedded_with().await.expect("read"), None);
    episodes.note_embedded_with("e-2").await.expect("noted");
    assert_eq!(episodes.embedded_with().await.expect("read").as_deref(), Some("e-2"));
}
