//! The open connections: how many there may be, whose they are, and which one ends first.
//!
//! **Invariant:** a connection holds a place from [`Connections::admit`] until it has really ended.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::activity::{Activity, End};
use super::guard::network;
use super::server::ServerLimits;

/// How long no idle connection of one address is looked for after none was found.
const SEARCH_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection may take to close on request before the next one is asked to close.
const ENDING_TIME: Duration = Duration::from_millis(200);

/// One open connection.
pub(super) struct Connection {
    number: u64,
    /// The address whose share it is part of; `None` for a trusted proxy.
    counted: Option<IpAddr>,
    activity: Mutex<Activity>,
    end: Mutex<Option<End>>,
    told: Notify,
}

/// All open connections.
pub(super) struct Connections {
    limits: ServerLimits,
    open: Mutex<Open>,
    freed: Notify,
}

#[derive(Default)]
struct Open {
    next_number: u64,
    connections: HashMap<u64, Arc<Connection>>,
    by_address: HashMap<IpAddr, usize>,
    /// When an idle connection of one address is looked for again, after none was found.
    search_after: Option<Instant>,
    /// When the next idle connection may be asked to close, because the last one has not freed its place.
    end_after: Option<Instant>,
}

/// A connection's place; dropping it gives the place back.
pub(super) struct Place {
    pub(super) connection: Arc<Connection>,
    connections: Arc<Connections>,
}

/// Whether a new connection may be served.
pub(super) enum Admission {
    /// It has a place.
    Admitted(Place),
    /// All places are taken.
    Full,
    /// Its address has its share.
    AddressFull,
}

impl Connections {
    pub(super) fn new(limits: ServerLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default(), freed: Notify::new() })
    }

    /// Gives a new connection a place. When there is none, the connection that is idle longest is asked to close.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, now: Instant) -> Admission {
        let counted = (!self.limits.trusted_proxies.contains(peer)).then(|| network(peer));
        let mut open = lock(&self.open);
        if let Some(address) = counted {
            let own = open.by_address.get(&address).copied().unwrap_or(0);
            if own >= self.limits.connections_per_address_max && !open.end_longest_idle_of(address, now) {
                return Admission::AddressFull;
            }
        }
        if open.connections.len() >= self.limits.connections_max {
            if open.end_after.is_none_or(|after| now >= after) && open.end_longest_idle(|_| true) {
                open.end_after = Some(now + ENDING_TIME);
            }
            return Admission::Full;
        }
        open.end_after = None;
        let ServerLimits { header_timeout, write_timeout, .. } = self.limits;
        let connection = Arc::new(Connection {
            number: open.next_number,
            counted,
            activity: Mutex::new(Activity::starting(header_timeout, write_timeout, now)),
            end: Mutex::new(None),
            told: Notify::new(),
        });
        open.next_number += 1;
        open.connections.insert(connection.number, Arc::clone(&connection));
        if let Some(address) = counted {
            *open.by_address.entry(address).or_default() += 1;
        }
        Admission::Admitted(Place { connection, connections: Arc::clone(self) })
    }

    /// Ready when a place has become free.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Ends connections whose time is over.
    pub(super) fn end_overdue(&self, now: Instant) {
        for connection in lock(&self.open).connections.values() {
            if let Some((_, end)) = connection.activity().deadline().filter(|(deadline, _)| *deadline <= now) {
                connection.tell(end);
            }
        }
    }

    /// Closes all connections once they have answered.
    pub(super) fn stop(&self) {
        lock(&self.open).connections.values().for_each(|connection| connection.tell(End::Stop));
    }

    /// How often overdue connections have to be looked for, so that a timeout is not exceeded by much.
    pub(super) fn sweep_period(&self) -> Duration {
        let shortest = self.limits.header_timeout.min(self.limits.write_timeout);
        (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

impl Open {
    /// Closes the connection that is idle longest. Returns whether there was one.
    fn end_longest_idle(&self, candidate: impl Fn(&Connection) -> bool) -> bool {
        let candidates =
            self.connections.values().filter(|connection| candidate(connection) && !connection.is_ending());
        let idle = candidates.filter_map(|connection| Some((connection.activity().idle_since()?, connection)));
        let longest = idle.min_by_key(|(since, _)| *since);
        longest.inspect(|(_, connection)| connection.tell(End::Idle)).is_some()
    }

    /// The same for one address. A search that found none is not repeated for every further connection of a flood.
    fn end_longest_idle_of(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.search_after.is_some_and(|after| now < after) {
            return false;
        }
        let ended = self.end_longest_idle(|connection| connection.counted == Some(address));
        self.search_after = (!ended).then(|| now + SEARCH_PAUSE);
        ended
    }
}

impl Connection {
    pub(super) fn activity(&self) -> MutexGuard<'_, Activity> {
        lock(&self.activity)
    }

    /// Ready when it has to end. The reason may grow more urgent later.
    pub(super) async fn ended(&self) -> End {
        loop {
            let told = self.told.notified();
            if let Some(end) = *lock(&self.end) {
                return end;
            }
            told.await;
        }
    }

    /// Ready when it has to end at once.
    pub(super) async fn ended_at_once(&self) {
        loop {
            let told = self.told.notified();
            if *lock(&self.end) == Some(End::Slow) {
                return;
            }
            told.await;
        }
    }

    fn is_ending(&self) -> bool {
        lock(&self.end).is_some()
    }

    fn tell(&self, end: End) {
        let mut told = lock(&self.end);
        if told.is_none() || end == End::Slow {
            *told = Some(end);
            self.told.notify_one();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = lock(&self.connections.open);
        open.connections.remove(&self.connection.number);
        if let Some(address) = self.connection.counted
            && let Some(own) = open.by_address.get_mut(&address)
        {
            *own -= 1;
            if *own == 0 {
                open.by_address.remove(&address);
            }
        }
        drop(open);
        self.connections.freed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use axum::http::Version;

    use super::*;
    use crate::config::Networks;

    const HEADER: Duration = Duration::from_secs(10);

    fn connections(connections_max: usize, connections_per_address_max: usize) -> Arc<Connections> {
        Connections::new(ServerLimits {
            connections_max,
            connections_per_address_max,
            trusted_proxies: Networks::try_from(vec!["127.0.0.1".to_owned()]).expect("an address"),
            header_bytes_max: 32_768,
            header_timeout: HEADER,
            write_timeout: HEADER,
            finish_timeout: HEADER,
        })
    }

    /// A place for an address, or why there is none.
    fn admit(connections: &Arc<Connections>, address: &str, now: Instant) -> Result<Place, &'static str> {
        match connections.admit(address.parse().expect("an address"), now) {
            Admission::Admitted(place) => Ok(place),
            Admission::Full => Err("full"),
            Admission::AddressFull => Err("address full"),
        }
    }

    fn answer(place: &Place, now: Instant) {
        place.connection.activity().open(Version::HTTP_11);
        place.connection.activity().close(now);
    }

    fn end(place: &Place) -> Option<End> {
        *lock(&place.connection.end)
    }

    #[test]
    fn an_address_has_its_share_and_no_more() {
        let (connections, now) = (connections(4, 2), Instant::now());
        let held = [(); 2].map(|()| admit(&connections, "127.0.0.2", now).expect("a place"));
        assert_eq!(admit(&connections, "127.0.0.2", now).err(), Some("address full"));
        let _other = admit(&connections, "::ffff:127.0.0.3", now).expect("a place for others");
        drop(held);
        assert!(admit(&connections, "127.0.0.2", now).is_ok());
    }

    #[test]
    fn a_trusted_proxy_may_have_all_places() {
        let (connections, now) = (connections(3, 1), Instant::now());
        let _held = [(); 3].map(|()| admit(&connections, "127.0.0.1", now).expect("a place"));
        assert_eq!(admit(&connections, "127.0.0.1", now).err(), Some("full"));
    }

    #[test]
    fn one_network_of_version_6_is_one_address() {
        let (connections, now) = (connections(4, 1), Instant::now());
        let _held = admit(&connections, "2001:db8::1", now).expect("a place");
        assert_eq!(admit(&connections, "2001:db8::2", now).err(), Some("address full"));
        assert!(admit(&connections, "2001:db8:0:1::1", now).is_ok());
    }

    #[test]
    fn the_longest_idle_connection_goes_first() {
        let (connections, now) = (connections(3, 3), Instant::now());
        let [busy, idle, longest] = [(); 3].map(|()| admit(&connections, "127.0.0.2", now).expect("a place"));
        busy.connection.activity().open(Version::HTTP_11);
        answer(&longest, now);
        answer(&idle, now + Duration::from_secs(1));
        assert_eq!(admit(&connections, "127.0.0.3", now).err(), Some("full"));
        assert_eq!((end(&busy), end(&idle), end(&longest)), (None, None, Some(End::Idle)));
        assert_eq!(admit(&connections, "127.0.0.3", now).err(), Some("full"), "until it has really ended");
        assert_eq!(end(&idle), None, "one is enough");
        assert_eq!(admit(&connections, "127.0.0.3", now + ENDING_TIME).err(), Some("full"));
        assert_eq!((end(&busy), end(&idle)), (None, Some(End::Idle)), "the first takes too long");
        drop(longest);
        assert!(admit(&connections, "127.0.0.3", now).is_ok());
    }

    #[test]
    fn an_address_with_its_share_gives_up_an_idle_connection_of_its_own() {
        let (connections, now) = (connections(9, 2), Instant::now());
        let others = admit(&connections, "127.0.0.3", now).expect("a place");
        answer(&others, now);
        let [_silent, idle] = [(); 2].map(|()| admit(&connections, "127.0.0.2", now).expect("a place"));
        assert_eq!(admit(&connections, "127.0.0.2", now).err(), Some("address full"));
        answer(&idle, now);
        assert_eq!(
            admit(&connections, "127.0.0.2", now).err(),
            Some("address full"),
            "it searches again a little later"
        );
        let later = now + SEARCH_PAUSE;
        assert!(admit(&connections, "127.0.0.2", later).is_ok());
        assert_eq!((end(&others), end(&idle)), (None, Some(End::Idle)));
    }

    #[test]
    fn overdue_connections_end() {
        let (connections, now) = (connections(2, 2), Instant::now());
        let silent = admit(&connections, "127.0.0.2", now).expect("a place");
        connections.end_overdue(now + HEADER - Duration::from_millis(1));
        assert_eq!(end(&silent), None);
        connections.end_overdue(now + HEADER);
        assert_eq!(end(&silent), Some(End::Slow));
    }
}
