//! What one connection is doing, and when it has to end.
//!
//! hyper minds the time of an HTTP/1 head only, counts the pause between two requests as one, and leaves HTTP/2
//! connections open for as long as pings are answered. So connections are timed here, from what the stream and the
//! requests tell. A deadline is a function of values; `connections` looks at the clock.

use std::time::Duration;

use axum::http::Version;
use tokio::time::Instant;

use super::pace::Pace;

/// How long an HTTP/1.1 connection that has had an answer may wait for its next request. Longer than the idle timeouts of
/// usual clients and proxies (60 s), which would otherwise send a request into a closing connection.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    header_timeout: Duration,
    http2: bool,
    /// Requests whose answer has not ended.
    open: usize,
    /// Since when no request is open.
    quiet_since: Instant,
    /// When the first byte of the next head came.
    head_since: Option<Instant>,
    /// Whether a request was answered.
    answered: bool,
    writing: Pace,
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It waits for a next request.
    Idle,
    /// The client does not send what it began, or does not take what it asked for.
    Slow,
    /// The server stops.
    Stop,
}

impl Activity {
    pub(super) fn starting(header_timeout: Duration, write_timeout: Duration, now: Instant) -> Self {
        Self {
            header_timeout,
            http2: false,
            open: 0,
            quiet_since: now,
            head_since: None,
            answered: false,
            writing: Pace::new(write_timeout),
        }
    }

    /// Bytes came.
    pub(super) fn read(&mut self, now: Instant) {
        if self.open == 0 {
            self.head_since.get_or_insert(now);
        }
    }

    /// The client does not take what is to be written.
    pub(super) fn block(&mut self, now: Instant) {
        self.writing.wait(now);
    }

    /// Bytes went out.
    pub(super) fn write(&mut self, bytes: usize, now: Instant) {
        self.writing.advance(bytes, now);
    }

    /// A request's head has come.
    pub(super) fn open(&mut self, version: Version) {
        self.http2 = version == Version::HTTP_2;
        self.open += 1;
        self.head_since = None;
    }

    /// A request's answer has ended.
    pub(super) fn close(&mut self, now: Instant) {
        self.open -= 1;
        if self.open == 0 {
            (self.quiet_since, self.answered) = (now, true);
        }
    }

    /// Whether a request is open.
    pub(super) fn is_busy(&self) -> bool {
        self.open > 0
    }

    /// Since when it waits for a next request with nothing under way; such a connection can end without harm.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let idle = self.answered && !self.is_busy() && self.head_since.is_none() && self.writing.deadline().is_none();
        idle.then_some(self.quiet_since)
    }

    /// When it has to end, if nothing changes.
    pub(super) fn deadline(&self) -> Option<(Instant, End)> {
        if let Some(deadline) = self.writing.deadline() {
            return Some((deadline, End::Slow));
        }
        if self.is_busy() {
            return None;
        }
        match self.head_since {
            _ if !self.answered => Some((self.quiet_since + self.header_timeout, End::Slow)),
            // Frames of control are no request, so they earn nothing.
            _ if self.http2 => Some((self.quiet_since + self.header_timeout, End::Idle)),
            Some(head_since) => Some((head_since + self.header_timeout, End::Slow)),
            None => Some((self.quiet_since + KEEP_ALIVE.max(self.header_timeout), End::Idle)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Duration = Duration::from_secs(10);
    const WRITE: Duration = Duration::from_secs(30);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A connection that starts now.
    fn starting() -> (Activity, Instant) {
        let now = Instant::now();
        (Activity::starting(HEADER, WRITE, now), now)
    }

    /// Answers one request, which ends at `now`.
    fn answer(activity: &mut Activity, version: Version, now: Instant) {
        activity.read(now);
        activity.open(version);
        activity.close(now);
    }

    #[test]
    fn a_first_request_comes_within_the_header_timeout() {
        let (mut activity, start) = starting();
        assert_eq!(activity.deadline(), Some((start + HEADER, End::Slow)));
        activity.read(start + seconds(9));
        assert_eq!(activity.deadline(), Some((start + HEADER, End::Slow)), "a trickle of a head earns nothing");
        assert_eq!(activity.idle_since(), None);
    }

    #[test]
    fn an_answered_http1_connection_is_kept_75_s() {
        let (mut activity, start) = starting();
        let end = start + seconds(5);
        answer(&mut activity, Version::HTTP_11, end);
        assert_eq!(activity.deadline(), Some((end + KEEP_ALIVE, End::Idle)));
        assert_eq!(activity.idle_since(), Some(end));
        let head = end + seconds(60);
        activity.read(head);
        activity.read(head + seconds(1));
        assert_eq!(activity.deadline(), Some((head + HEADER, End::Slow)), "a head that began has to end");
        assert_eq!(activity.idle_since(), None);
    }

    #[test]
    fn an_http2_connection_without_a_stream_ends_whatever_frames_come() {
        let (mut activity, start) = starting();
        answer(&mut activity, Version::HTTP_2, start);
        for second in 1..9 {
            activity.read(start + seconds(second));
            activity.write(17, start + seconds(second));
        }
        assert_eq!(activity.deadline(), Some((start + HEADER, End::Idle)));
    }

    #[test]
    fn an_open_request_has_no_deadline_until_a_write_stands_still() {
        let (mut activity, start) = starting();
        activity.open(Version::HTTP_2);
        activity.open(Version::HTTP_2);
        activity.close(start);
        assert_eq!(activity.deadline(), None);
        activity.block(start + seconds(1));
        activity.block(start + seconds(20));
        assert_eq!(activity.deadline(), Some((start + seconds(1) + WRITE, End::Slow)));
        activity.write(1 << 20, start + seconds(25));
        assert_eq!(activity.deadline(), None);
    }

    #[test]
    fn the_last_bytes_of_an_answer_have_the_time_of_any_write() {
        let (mut activity, start) = starting();
        activity.open(Version::HTTP_11);
        activity.block(start);
        activity.close(start);
        assert_eq!(activity.idle_since(), None);
        assert_eq!(activity.deadline(), Some((start + WRITE, End::Slow)));
    }
}
