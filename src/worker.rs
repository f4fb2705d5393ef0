//! What runs beside the requests: cleanup by schedule, jobs as they come, webhooks in `post`, and
//! writing what waits for the disk.

mod pace;
mod post;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

use self::pace::Pace;
use crate::beside::Beside;
use crate::lifecycle::ClockWatch;
use crate::memory::Memory;
use crate::store::live::LiveError;
use crate::store::{Claim, Store, StoreError, Waiting};

/// How often the disk is tried again while turns wait for it.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// How often abandoned turns are searched for.
const GIVE_UP_EVERY: Duration = Duration::from_secs(60);
/// How often turns without rows are looked for, and how soon after a failure.
const ROWS_EVERY: Duration = Duration::from_secs(1);
const ROWS_RETRY: Duration = Duration::from_secs(30);
/// How often jobs are looked for that nobody told of, and how soon after the store failed.
const JOBS_EVERY: Duration = Duration::from_secs(5);
const JOBS_RETRY: Duration = Duration::from_secs(30);
/// How long a job that is under way may take when everything stops.
const JOBS_PATIENCE: Duration = Duration::from_secs(1);
/// How often full blocks are looked for.
const BLOCKS_EVERY: Duration = Duration::from_secs(10);
/// How soon the book of what was erased is tried again while the database is away.
const ERASURES_RETRY: Duration = Duration::from_secs(1);
/// How often turns without a topic, and topics that changed, are looked for.
const TOPICS_EVERY: Duration = Duration::from_secs(1);
/// How often words are looked for that are yet to be understood.
const FACTS_EVERY: Duration = Duration::from_secs(1);
/// How often passages without a vector are looked for.
const PASSAGES_EVERY: Duration = Duration::from_secs(60);
/// How often live sessions are looked for whose time is over.
const VISITS_EVERY: Duration = Duration::from_secs(1);
/// How soon a failed cleanup is tried again, at most.
const CLEANUP_RETRY: Duration = Duration::from_secs(300);

/// Background tasks; they end when told to.
#[derive(Debug)]
pub struct Worker {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    beside: Beside,
}

impl Worker {
    /// Starts cleaning up every so often.
    pub fn start(memory: Memory, clock: Arc<ClockWatch>, cleanup_every: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let beside = memory.parts.beside.clone();
        let given_up = beside.spawn(until(stopped.clone(), give_up(memory.clone())));
        let rows = beside.spawn(until(stopped.clone(), derive_rows(memory.clone())));
        let episodes = beside.spawn(until(stopped.clone(), embed_episodes(memory.clone())));
        let passages = beside.spawn(until(stopped.clone(), embed_knowledge(memory.clone())));
        let blocks = beside.spawn(until(stopped.clone(), pack_blocks(memory.clone())));
        let jobs = beside.spawn(run_jobs(memory.clone(), stopped.clone()));
        let topics = beside.spawn(until(stopped.clone(), tend_topics(memory.clone())));
        let facts = beside.spawn(until(stopped.clone(), learn_facts(memory.clone())));
        let post = beside.spawn(post::deliver(memory.clone(), stopped.clone()));
        let visits = beside.spawn(until(stopped.clone(), sweep_visits(memory.clone())));
        let cleaning = beside.spawn(until(stopped, clean_up(memory, clock, cleanup_every)));
        let tasks = vec![cleaning, given_up, rows, jobs, blocks, topics, episodes, facts, passages, visits, post];
        Self { stop, tasks, beside }
    }

    /// Starts writing what waits in this store.
    pub fn flush<S: Store + ?Sized>(&mut self, store: Arc<Waiting<S>>) {
        self.tasks.push(self.beside.spawn(until(self.stop.subscribe(), flush(store))));
    }

    /// Erases what an older copy of the data brought back, as soon as the store answers: at the start it did not.
    pub fn erase_again(&mut self, memory: Memory) {
        let erase = async move {
            while let Err(error) = memory.reapply_erasures().await {
                not_yet("What was erased is not looked at yet", &error);
                if !error.may_pass() {
                    break;
                }
                // A database that is away says nothing each time; a disk that is full would.
                tokio::time::sleep(if error.is_away() { ERASURES_RETRY } else { ROWS_RETRY }).await;
            }
        };
        self.tasks.push(self.beside.spawn(until(self.stop.subscribe(), erase)));
    }

    /// Ends all tasks and waits for them.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                warn!(error = %error, "A background task did not end well: {error}");
            }
        }
    }
}

/// Says that something has to wait; that the database is away is known already.
pub(crate) fn not_yet(what: &str, error: &StoreError) {
    match error.is_away() {
        true => debug!("{what}: {error}"),
        false => warn!(error = %error, "{what}: {error}"),
    }
}

/// Runs until told to stop. The tasks it runs can be dropped at any await: a store call that has begun
/// finishes in the store's own thread.
async fn until(mut stopped: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

async fn clean_up(memory: Memory, clock: Arc<ClockWatch>, every: Duration) {
    loop {
        let report = memory.cleanup(&clock).await;
        let pause = if report.errors.is_empty() { every } else { every.min(CLEANUP_RETRY) };
        tokio::time::sleep(pause).await;
    }
}

/// A tool call whose result never came leaves its turn partial, an instance that is gone leaves its turns failed.
async fn give_up(memory: Memory) {
    loop {
        tokio::time::sleep(GIVE_UP_EVERY).await;
        memory.give_up_on_tools().await;
        memory.give_up_on_the_lost().await;
    }
}

/// Makes rows for recall while there are turns that lack them, and looks again after a while.
async fn derive_rows(memory: Memory) {
    if let Err(error) = memory.check_rows().await {
        not_yet("Whether recall's rows are of today's form cannot be told", &error);
    }
    let mut pace = Pace::new(&memory);
    loop {
        match pace.piece(memory.derive_rows()).await {
            Ok(derived) if !derived.is_nothing() => pace.rest().await,
            Ok(_) => tokio::time::sleep(ROWS_EVERY).await,
            Err(error) => {
                not_yet("Rows for recall cannot be written yet", &error);
                tokio::time::sleep(ROWS_RETRY).await;
            }
        }
    }
}

/// Makes vectors for summaries that another embedder made them for. One that does not answer is asked again later.
async fn embed_episodes(memory: Memory) {
    loop {
        match memory.embed_episodes().await {
            Ok(embedded) if !embedded.waiting => return,
            Ok(_) => {}
            Err(error) => not_yet("Vectors of summaries cannot be written yet", &error),
        }
        tokio::time::sleep(ROWS_RETRY).await;
    }
}

/// The same for passages of documents; those that are added while the embedder does not answer come later, too.
async fn embed_knowledge(memory: Memory) {
    loop {
        if let Err(error) = memory.embed_knowledge().await {
            not_yet("Vectors of passages cannot be written yet", &error);
        }
        tokio::time::sleep(PASSAGES_EVERY).await;
    }
}

/// Packs old text tightly, a little at a time.
async fn pack_blocks(memory: Memory) {
    loop {
        tokio::time::sleep(BLOCKS_EVERY).await;
        if let Err(error) = memory.pack_blocks().await {
            not_yet("Old text cannot be packed tightly yet", &error);
        }
    }
}

/// Puts topics in order while there is something to do, and looks again after a while.
async fn tend_topics(memory: Memory) {
    if let Err(error) = memory.check_topics().await {
        not_yet("Whether topics are of today's form cannot be told", &error);
    }
    let mut pace = Pace::new(&memory);
    loop {
        match pace.piece(memory.tend_topics()).await {
            Ok(tended) if !tended.is_nothing() => pace.rest().await,
            Ok(_) => tokio::time::sleep(TOPICS_EVERY).await,
            Err(error) => {
                not_yet("Topics cannot be put in order yet", &error);
                tokio::time::sleep(ROWS_RETRY).await;
            }
        }
    }
}

/// Ends the sessions of visitors whose time is over, whether anybody comes or not. What older versions kept of visitors in
/// the data file goes first.
async fn sweep_visits(memory: Memory) {
    loop {
        match memory.forget_visits().await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                not_yet("What older versions kept of visitors cannot be removed yet", &error);
                tokio::time::sleep(ROWS_RETRY).await;
            }
        }
        end_visits(&memory).await;
    }
    loop {
        tokio::time::sleep(VISITS_EVERY).await;
        end_visits(&memory).await;
    }
}

async fn end_visits(memory: &Memory) {
    match memory.sweep_live().await {
        // Where sessions are kept has said so already, once.
        Ok(_) | Err(LiveError::Unreachable(_)) => {}
        Err(error) => warn!(error = %error, "Live sessions whose time is over cannot be ended yet: {error}"),
    }
}

/// Learns from what users said, and looks again after a while.
async fn learn_facts(memory: Memory) {
    if let Err(error) = memory.check_facts().await {
        not_yet("Whether facts are of today's form cannot be told", &error);
    }
    let mut pace = Pace::new(&memory);
    loop {
        match pace.piece(memory.learn_facts()).await {
            Ok(0) => tokio::time::sleep(FACTS_EVERY).await,
            Ok(_) => pace.rest().await,
            Err(error) => {
                not_yet("Facts cannot be learned yet", &error);
                tokio::time::sleep(ROWS_RETRY).await;
            }
        }
    }
}

/// Does jobs as they come. When told to stop it begins no other.
async fn run_jobs(memory: Memory, stopped: watch::Receiver<bool>) {
    let news = memory.job_news();
    let mut pace = Pace::new(&memory);
    while !*stopped.borrow() {
        let pause = match memory.claim_job().await {
            Ok(Some(claim)) => {
                pace.piece(see_through(&memory, &claim, stopped.clone())).await;
                until(stopped.clone(), pace.rest()).await;
                continue;
            }
            Ok(None) => JOBS_EVERY,
            Err(error) => {
                not_yet("Jobs cannot be claimed yet", &error);
                JOBS_RETRY
            }
        };
        let waited = async { tokio::time::timeout(pause, news.notified()).await.unwrap_or_default() };
        until(stopped.clone(), waited).await;
    }
}

/// Does one job to its end, or until patience ends after everything was told to stop; then it is put back.
async fn see_through(memory: &Memory, claim: &Claim, mut stopped: watch::Receiver<bool>) {
    let impatience = async {
        let _ = stopped.wait_for(|stop| *stop).await;
        tokio::time::sleep(JOBS_PATIENCE).await;
    };
    let ended = tokio::select! {
        ended = memory.run_job(claim) => ended.map(drop),
        () = impatience => memory.give_job_back(claim).await,
    };
    if let Err(error) = ended {
        not_yet(&format!("How job `{}` ended cannot be noted; it is tried again later", claim.job.id), &error);
    }
}

async fn flush<S: Store + ?Sized>(store: Arc<Waiting<S>>) {
    let mut tick = interval(FLUSH_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if store.waiting() > 0 {
            store.flush().await;
        }
    }
}
