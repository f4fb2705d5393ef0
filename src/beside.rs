//! Threads for what nobody waits for.
//!
//! On the threads that answer requests, work that nobody waits for keeps those waiting who come next. A server gives it threads
//! of its own, to which the system prefers all others; in a library it runs where everything runs.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// By how much others are preferred: a third of their share where all processors are busy. Much less, and whoever waits for a lock
/// that is held here would wait long.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

/// Where work goes that nobody waits for.
#[derive(Debug, Clone, Default)]
pub struct Beside(Option<Handle>);

impl Beside {
    /// On these threads.
    pub fn on(threads: &Handle) -> Self {
        Self(Some(threads.clone()))
    }

    /// Begins with something. It goes on whether anybody waits for it or not.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        match &self.0 {
            Some(threads) => threads.spawn(work),
            None => tokio::spawn(work),
        }
    }
}

/// As many threads as there are processors. Whoever holds them ends them.
pub fn threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_name("recalld-beside").on_thread_start(stepping_back()).build()
}

/// Lets all other threads go first. Where that is not possible work is done all the same.
#[cfg(target_os = "linux")]
fn stepping_back() -> impl Fn() + Send + Sync + 'static {
    use rustix::process::{getpriority_process, setpriority_process};
    // One that is started by another of these has stepped back already: it must not step back from there.
    let ours = getpriority_process(None);
    move || {
        let _ = ours.and_then(|ours| setpriority_process(None, ours + NICE));
    }
}

#[cfg(not(target_os = "linux"))]
fn stepping_back() -> impl Fn() + Send + Sync + 'static {
    || ()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_its_threads_or_on_ours() {
        let name = || async { std::thread::current().name().map(str::to_owned) };
        let ours = Beside::default().spawn(name()).await.expect("it ends");
        let threads = threads().expect("threads start");
        let theirs = Beside::on(threads.handle()).spawn(name()).await.expect("it ends");
        threads.shutdown_background();
        assert_eq!((ours == theirs, theirs.as_deref()), (false, Some("recalld-beside")));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_its_threads_step_back() {
        let nice = || rustix::process::getpriority_process(None).expect("a number");
        let before = nice();
        let threads = threads().expect("threads start");
        let within = threads.spawn(async move { (nice(), tokio::task::spawn_blocking(nice).await.expect("it ends")) });
        let (inside, blocking) = threads.block_on(within).expect("it ends");
        assert_eq!((nice(), inside, blocking), (before, before + NICE, before + NICE));
    }
}
