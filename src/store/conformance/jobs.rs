//! Work that waits beside the conversations: asked for once, done once, never lost.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Talk;
use super::talk::{draft, user};
use crate::job::{ATTEMPTS_MAX, JobKind, JobState};
use crate::session::TurnStatus;
use crate::store::{Claim, Effect, Finished, JobCounts, PageRequest, Store};

/// Turns of a full window; see `EpisodeSettings`.
const WINDOW: usize = 20;
const LEASE: SignedDuration = SignedDuration::from_mins(1);

/// Long after everything that is stored meanwhile.
fn later(minutes: i64) -> Timestamp {
    "2100-01-01T00:00:00Z".parse::<Timestamp>().expect("a time") + SignedDuration::from_mins(minutes)
}

async fn claim(store: &Arc<dyn Store>, minutes: i64) -> Option<Claim> {
    store.jobs().claim(None, later(minutes), LEASE).await.expect("jobs are claimed")
}

async fn finish(store: &Arc<dyn Store>, claim: &Claim) -> Finished {
    store.jobs().finish(claim, Effect::Nothing).await.expect("jobs are ended")
}

async fn counts(store: &Arc<dyn Store>) -> JobCounts {
    store.jobs().counts(None).await.expect("jobs are counted")
}

async fn fill(talk: &Talk, turns: usize) {
    talk.add((0..turns).map(|n| draft(&format!("question {n}"), "yes")).collect()).await;
}

/// A full window asks for one job, however the turns came.
pub async fn a_full_window_asks_for_one_job(store: Arc<dyn Store>) {
    let (chat, added, said) = (Talk::new(&store), Talk::new(&store), Talk::new(&store));
    for n in 1..=WINDOW + 2 {
        chat.exchange("how?", "so").await;
        assert_eq!(counts(&store).await.queued, u64::from(n >= WINDOW), "after {n} turns");
    }
    fill(&added, WINDOW - 1).await;
    assert_eq!(counts(&store).await.queued, 1);
    fill(&added, 1).await;
    assert_eq!(counts(&store).await.queued, 2);
    said.say(vec![user("again"); WINDOW]).await.expect("the messages are added");
    assert_eq!(counts(&store).await.queued, 3);
    let job = claim(&store, 0).await.expect("one is due");
    assert_eq!((job.job.kind.clone(), job.job.session, &job.scope), (JobKind::CONSOLIDATE, chat.session, &chat.scope));
}

/// What is not shown is not counted.
pub async fn only_shown_turns_fill_the_window(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for _ in 0..WINDOW {
        let id = talk.ask("is anybody there?").await;
        talk.try_close(talk.ending(id, TurnStatus::Failed, Vec::new())).await.expect("the ending is written");
    }
    fill(&talk, WINDOW - 1).await;
    assert_eq!(counts(&store).await.queued, 0);
    fill(&talk, 1).await;
    assert_eq!(counts(&store).await.queued, 1);
}

/// One job is in one hand at a time; when its lease has lapsed another may take it, and the first one's effect is void.
pub async fn a_lapsed_lease_voids_the_first_claim(store: Arc<dyn Store>) {
    fill(&Talk::new(&store), WINDOW).await;
    let paused = claim(&store, 0).await.expect("one is due");
    assert_eq!((paused.job.state, paused.job.attempts), (JobState::Running, 1));
    assert_eq!(claim(&store, 0).await, None);
    let second = claim(&store, 2).await.expect("the lease has lapsed");
    assert_eq!((second.job.id, second.job.attempts), (paused.job.id, 2));
    assert_eq!(finish(&store, &paused).await, Finished::Lost);
    let failed = store.jobs().fail(&paused, "too late", None).await.expect("answered");
    assert_eq!((failed, store.jobs().give_back(&paused).await.expect("answered")), (Finished::Lost, Finished::Lost));
    assert_eq!(finish(&store, &second).await, Finished::Done);
    assert_eq!(finish(&store, &second).await, Finished::Lost, "it is gone");
    assert_eq!(counts(&store).await, JobCounts::default());
}

/// A lease that lapsed while nobody came is as good as a fresh one.
pub async fn a_late_finish_counts_if_nobody_came(store: Arc<dyn Store>) {
    fill(&Talk::new(&store), WINDOW).await;
    let late = claim(&store, 0).await.expect("one is due");
    assert_eq!(finish(&store, &late).await, Finished::Done);
}

/// What is asked for while a job runs is done afterwards.
pub async fn a_job_asked_for_meanwhile_runs_again(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    fill(&talk, WINDOW).await;
    let first = claim(&store, 0).await.expect("one is due");
    fill(&talk, 1).await;
    assert_eq!(claim(&store, 0).await, None, "one at a time");
    assert_eq!(finish(&store, &first).await, Finished::Again);
    let next = claim(&store, 0).await.expect("it is due again");
    assert_eq!((next.job.attempts, next.job.last_error.clone()), (1, None));
    assert_eq!(finish(&store, &next).await, Finished::Done);
    assert_eq!(claim(&store, 0).await, None);
}

/// A job that fails waits for its next try, and is dead after the last; a person brings it back.
pub async fn a_failing_job_waits_and_dies(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    fill(&talk, WINDOW).await;
    for attempt in 1..=ATTEMPTS_MAX {
        let claim = claim(&store, 10 * i64::from(attempt)).await.expect("it is due");
        assert_eq!(claim.job.attempts, attempt);
        let next = (attempt < ATTEMPTS_MAX).then(|| later(10 * i64::from(attempt) + 5));
        let noted = store.jobs().fail(&claim, &format!("no {attempt}"), next).await.expect("noted");
        assert_eq!(noted, Finished::Done);
        assert_eq!(self::claim(&store, 10 * i64::from(attempt) + 1).await, None, "not before its time");
    }
    let told = counts(&store).await;
    assert_eq!((told.dead, told.queued, told.last_error.as_deref()), (1, 0, Some("no 5")));
    fill(&talk, 1).await;
    assert_eq!(claim(&store, 1_000).await, None, "the dead are not disturbed");
    let job = store.jobs().list(&talk.scope, PageRequest::first(9)).await.expect("listed").items.remove(0);
    assert_eq!((job.state, job.attempts), (JobState::Dead, ATTEMPTS_MAX));
    assert_eq!(store.jobs().retry(Some(&talk.scope), Some(job.id)).await.expect("tried again"), 1);
    let again = claim(&store, 0).await.expect("it is back");
    assert_eq!((again.job.id, again.job.attempts), (job.id, 1));
}

/// A job that takes its process with it each time says how often it did, so that whoever takes it can give it up.
pub async fn lapsed_leases_are_counted(store: Arc<dyn Store>) {
    fill(&Talk::new(&store), WINDOW).await;
    for attempt in 1..=ATTEMPTS_MAX + 1 {
        assert_eq!(claim(&store, 2 * i64::from(attempt)).await.map(|claim| claim.job.attempts), Some(attempt));
    }
}

/// What was not seen through is put back; what a former process held is free again.
pub async fn jobs_are_given_back_and_released(store: Arc<dyn Store>) {
    fill(&Talk::new(&store), WINDOW).await;
    let first = claim(&store, 0).await.expect("one is due");
    assert_eq!(store.jobs().give_back(&first).await.expect("given back"), Finished::Done);
    let second = claim(&store, 0).await.expect("it is due");
    assert_eq!(second.job.attempts, 1, "it was not tried");
    assert_eq!(store.jobs().release().await.expect("released"), 1);
    let third = claim(&store, 0).await.expect("it is due");
    assert_eq!(third.job.attempts, 2, "it was tried, and its process ended");
    assert_eq!(finish(&store, &second).await, Finished::Lost);
    assert_eq!(finish(&store, &third).await, Finished::Done);
}

/// Jobs go with their session, and what is done for it comes to nothing.
pub async fn a_deleted_session_takes_its_jobs_along(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    fill(&talk, WINDOW).await;
    let held = claim(&store, 0).await.expect("one is due");
    talk.delete().await;
    assert_eq!((finish(&store, &held).await, counts(&store).await), (Finished::Lost, JobCounts::default()));
    assert!(!store.jobs().enqueue(&talk.scope, talk.session, JobKind::CONSOLIDATE).await.expect("answered"));
}

/// Nobody sees, counts or brings back what is another's.
pub async fn jobs_belong_to_their_user(store: Arc<dyn Store>) {
    let ann = Talk::new(&store);
    let bob = ann.of("acme", "bob");
    fill(&ann, WINDOW).await;
    let ours = store.jobs().list(&ann.scope, PageRequest::first(9)).await.expect("listed");
    assert_eq!((ours.items.len(), ours.next, ours.items[0].session), (1, None, ann.session));
    assert_eq!(store.jobs().list(&bob.scope, PageRequest::first(9)).await.expect("listed").items, []);
    assert_eq!(store.jobs().counts(Some(&ann.scope)).await.expect("counted").queued, 1);
    assert_eq!(store.jobs().counts(Some(&bob.scope)).await.expect("counted"), JobCounts::default());
    let held = claim(&store, 0).await.expect("one is due");
    store.jobs().fail(&held, "no", None).await.expect("noted");
    assert_eq!(store.jobs().retry(Some(&bob.scope), None).await.expect("answered"), 0);
    assert_eq!(store.jobs().retry(Some(&bob.scope), Some(held.job.id)).await.expect("answered"), 0);
    assert_eq!(store.jobs().retry(Some(&ann.scope), None).await.expect("answered"), 1);
}

/// Two users of different tenants, each with a job that was given up.
async fn given_up(store: &Arc<dyn Store>) -> [Talk; 2] {
    let ann = Talk::new(store);
    let bob = ann.another().of("globex", "bob");
    for talk in [&ann, &bob] {
        fill(talk, WINDOW).await;
        let held = claim(store, 0).await.expect("one is due");
        store.jobs().fail(&held, "no", None).await.expect("noted");
    }
    [ann, bob]
}

/// What everybody was given up on can be brought back at once.
pub async fn everybodys_jobs_are_tried_again(store: Arc<dyn Store>) {
    given_up(&store).await;
    assert_eq!((store.jobs().retry(None, None).await.expect("tried again"), counts(&store).await.dead), (2, 0));
}

/// Whoever has everything made again has what was given up tried again, too, or it would stay removed.
pub async fn making_again_brings_back_what_was_given_up(store: Arc<dyn Store>) {
    let [ann, bob] = given_up(&store).await;
    store.episodes().make_again(Some(&ann.scope)).await.expect("done");
    let back = claim(&store, 0).await.expect("it is back");
    assert_eq!((&back.scope, back.job.attempts, claim(&store, 0).await), (&ann.scope, 1, None));
    store.episodes().make_again(None).await.expect("done");
    assert_eq!(claim(&store, 0).await.map(|claim| claim.scope), Some(bob.scope));
}

/// Whoever works for one user takes and hurries nobody else's.
pub async fn jobs_are_claimed_for_one_user(store: Arc<dyn Store>) {
    let ann = Talk::new(&store);
    let (bob, eve) = (ann.another().of("acme", "bob"), ann.another().of("globex", "eve"));
    fill(&ann, WINDOW).await;
    fill(&bob, WINDOW).await;
    let of = async |talk: &Talk| store.jobs().claim(Some(&talk.scope), later(0), LEASE).await.expect("a look");
    assert_eq!(of(&eve).await, None);
    let held = of(&bob).await.expect("one is due");
    assert_eq!((&held.scope, held.job.attempts, of(&bob).await), (&bob.scope, 1, None));
    store.jobs().finish(&held, Effect::Later(later(60))).await.expect("it is put off");
    assert_eq!(store.jobs().hurry(Some(&ann.scope)).await.expect("hurried"), 0);
    assert_eq!((of(&bob).await, store.jobs().hurry(Some(&bob.scope)).await.expect("hurried")), (None, 1));
    assert!(of(&bob).await.is_some() && of(&ann).await.is_some());
}

/// Long lists come in pages.
pub async fn jobs_are_listed_in_pages(store: Arc<dyn Store>) {
    let first = Talk::new(&store);
    let talks = [first.clone(), first.another(), first.another()];
    for talk in &talks {
        talk.exchange("hello", "hi").await;
        assert!(store.jobs().enqueue(&talk.scope, talk.session, JobKind::CONSOLIDATE).await.expect("asked for"));
    }
    let page = store.jobs().list(&first.scope, PageRequest::first(2)).await.expect("listed");
    let rest = PageRequest { after: page.next, ..PageRequest::first(2) };
    let rest = store.jobs().list(&first.scope, rest).await.expect("listed");
    let sessions = |jobs: Vec<crate::job::Job>| jobs.into_iter().map(|job| job.session).collect::<Vec<_>>();
    assert_eq!(sessions(page.items), [talks[0].session, talks[1].session]);
    assert_eq!((sessions(rest.items), rest.next), (vec![talks[2].session], None));
}

/// Whoever waits for jobs is told when one is on disk.
pub async fn new_jobs_are_told(store: Arc<dyn Store>) {
    let news = store.jobs().news();
    fill(&Talk::new(&store), WINDOW).await;
    tokio::time::timeout(Duration::from_secs(5), news.notified()).await.expect("the news comes");
    assert!(claim(&store, 0).await.is_some());
}

/// A job that is too early waits for its time, as if nobody had tried it, and can be hurried.
pub async fn a_job_that_is_too_early_waits(store: Arc<dyn Store>) {
    fill(&Talk::new(&store), WINDOW).await;
    let early = claim(&store, 0).await.expect("one is due");
    let put_off = store.jobs().finish(&early, Effect::Later(later(10))).await.expect("it is put off");
    assert_eq!((put_off, claim(&store, 9).await), (Finished::Later, None));
    assert_eq!(store.jobs().hurry(None).await.expect("hurried"), 1);
    let again = claim(&store, 9).await.expect("it is due");
    assert_eq!((again.job.attempts, again.job.id), (1, early.job.id));
    store.jobs().fail(&again, "no", Some(later(20))).await.expect("noted");
    assert_eq!(store.jobs().hurry(None).await.expect("hurried"), 0, "what failed waits");
}

/// Ending a session is noted, and lets its jobs run that wait for nothing but its rest.
pub async fn an_ended_session_need_not_rest(store: Arc<dyn Store>) {
    let (talk, other) = (Talk::new(&store), Talk::new(&store));
    for talk in [&talk, &other] {
        fill(talk, WINDOW).await;
        let early = claim(&store, 0).await.expect("one is due");
        store.jobs().finish(&early, Effect::Later(later(60))).await.expect("jobs are ended");
    }
    let end = |talk: &Talk| store.jobs().end_session(&talk.scope, talk.session, later(1));
    assert!(!end(&talk.of("acme", "bob")).await.expect("answered"), "a stranger ends nothing");
    assert_eq!(claim(&store, 1).await, None);
    assert!(end(&talk).await.expect("answered"));
    let due = claim(&store, 1).await.expect("it is due");
    assert_eq!((due.job.session, due.ended_at), (talk.session, Some(later(1))));
    assert_eq!(
        (talk.find().await.and_then(|session| session.ended_at), claim(&store, 1).await),
        (Some(later(1)), None)
    );
    assert_eq!(other.find().await.and_then(|session| session.ended_at), None);
}
