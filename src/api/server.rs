//! Serving connections: bounds on their number, on the size and time of a request's head and on slow readers, and an end
//! that finishes what was accepted.
//!
//! Reading order: the accept loop here, `connections` (who has a place), `activity` (when a connection ends), `stream` and
//! `exchange` (what reports their progress), `pace` (how slow a client may be).

use std::convert::Infallible;
use std::future::pending;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{Builder, UpgradeableConnection};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tracing::{debug, warn};

use super::activity::End;
use super::budget::Reservation;
use super::connections::{Admission, Connection, Connections, Place};
use super::exchange::{Answer, Exchange, StreamExecutor};
use super::stream::NotedStream;
use crate::config::Networks;

/// How long a connection that ends may take to say goodbye, and to finish a request that came meanwhile.
const GOODBYE: Duration = Duration::from_secs(1);
const LAST_REQUEST: Duration = Duration::from_secs(60);

/// Memory that one HTTP/2 connection can take: requests at once, body bytes not read yet, of one stream
/// and of all, and bytes of an answer that the client has not taken yet. hyper's defaults add up to 80 MB.
const STREAMS_MAX: u32 = 100;
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
const SEND_BUFFER: usize = 64 * 1024;

/// The response to a connection whose address is at its limit. It may not speak HTTP/1.1; then it is just closed.
const ADDRESS_FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
    x-recalld-code: too_many_connections\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 163\r\n\r\n\
    {\"error\":\"Too many connections\",\"detail\":\"your address has its share of connections; for a reverse proxy \
    raise connections_per_address_max or set trusted_proxies\"}";

/// The address at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// How connections are served.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Most open connections.
    pub connections_max: usize,
    /// Most open connections of one address.
    pub connections_per_address_max: usize,
    /// The addresses to which that does not apply.
    pub trusted_proxies: Networks,
    /// Largest head of a request.
    pub header_bytes_max: usize,
    /// How long a head may take to arrive.
    pub header_timeout: Duration,
    /// How long a client may stand still while it takes an answer.
    pub write_timeout: Duration,
    /// How long accepted requests may take once the server is told to stop.
    pub finish_timeout: Duration,
}

/// Serves until `stop` is ready, then finishes what was accepted, within its time.
pub async fn serve(listener: TcpListener, router: Router, limits: ServerLimits, stop: impl Future<Output = ()>) {
    let builder = Arc::new(builder(&limits));
    let finish_timeout = limits.finish_timeout;
    let connections = Connections::new(limits);
    let mut sweeps = tokio::time::interval(connections.sweep_period());
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tasks = JoinSet::new();
    // A client beyond the bound waits here, and those behind it in the system's queue, until a place is free.
    let mut waiting = None;
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener), if waiting.is_none() => waiting = Some(accepted),
            () = connections.freed(), if waiting.is_some() => {}
            _ = sweeps.tick() => connections.end_overdue(Instant::now()),
            // Ended connections are taken note of, so that the set does not grow.
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
        }
        let Some((stream, peer)) = waiting.take() else { continue };
        match connections.admit(peer, Instant::now()) {
            Admission::Admitted(place) => {
                let connection = Arc::clone(&place.connection);
                tasks.spawn(run(serve_one(&builder, stream, peer, connection, router.clone()), place));
            }
            Admission::Full => waiting = Some((stream, peer)),
            Admission::AddressFull => refuse(&stream, peer),
        }
    }
    drop((listener, waiting));
    connections.stop();
    let finished = async { while tasks.join_next().await.is_some() {} };
    if timeout(finish_timeout, finished).await.is_err() {
        warn!(connections = tasks.len(), "{} connections were still busy and are closed", tasks.len());
    }
    tasks.shutdown().await;
}

fn builder(limits: &ServerLimits) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(StreamExecutor { write_timeout: limits.write_timeout });
    builder
        .http1()
        .timer(TokioTimer::new())
        // `activity` times the head, because it distinguishes an unfinished head from a connection that is kept alive.
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// A connection as hyper serves it.
trait Served: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> {
    /// No request follows the ones that are open.
    fn finish(self: Pin<&mut Self>);
}

impl<S> Served for UpgradeableConnection<'static, TokioIo<NotedStream>, S, StreamExecutor>
where
    S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible> + 'static,
    S::Future: Send + 'static,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

fn serve_one(
    builder: &Builder<StreamExecutor>,
    stream: TcpStream,
    peer: IpAddr,
    connection: Arc<Connection>,
    router: Router,
) -> impl Served + use<> {
    let doors = TowerToHyperService::new(router);
    let stream = NotedStream::new(stream, Arc::clone(&connection));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let exchange = Exchange::open(&connection, request.version());
        request.extensions_mut().insert(Peer(peer));
        let answered = doors.call(request);
        async move {
            let mut response = answered.await.into_response();
            let reservation = response.extensions_mut().remove::<Arc<Reservation>>();
            Ok::<_, Infallible>(response.map(|body| Answer::new(body, exchange, reservation)))
        }
    });
    builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned()
}

/// Serves a connection to its end, and gives its place back.
async fn run(served: impl Served, place: Place) {
    let connection = &place.connection;
    let mut served = pin!(served);
    let end = tokio::select! {
        ended = served.as_mut() => return log(ended),
        end = connection.ended() => end,
    };
    if end == End::Slow {
        return debug!("A client was too slow; its connection is closed");
    }
    served.as_mut().finish();
    let goodbye = async {
        match timeout(GOODBYE, served.as_mut()).await {
            Ok(ended) => log(ended),
            Err(_) if !connection.activity().is_busy() => {}
            Err(_) if end == End::Stop => log(served.await),
            // A request that was on its way when the connection was idle is answered.
            Err(_) => drop(timeout(LAST_REQUEST, served).await),
        }
    };
    tokio::select! { () = goodbye => {}, () = connection.ended_at_once() => {} }
}

fn log(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        debug!(error = %error, "A connection ended early: {error}");
    }
}

/// Closes a connection of an address that has its share, with a word for people if it can be sent at once.
fn refuse(stream: &TcpStream, peer: IpAddr) {
    debug!(client.address = %peer, "A connection is refused: its address has its share (`connections_per_address_max`)");
    let _ = stream.try_write(ADDRESS_FULL);
}

/// The next connection. Running out of descriptors is waited out, not died of.
async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                return (stream, peer.ip());
            }
            Err(error) => {
                warn!(error = %error, "Cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Ready when the process is asked to stop: Ctrl-C or SIGTERM.
pub async fn asked_to_stop() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = pending::<()>();
    tokio::select! { () = interrupted => {}, () = terminated => {} }
}
