//! Serving connections: limits on their number, on the size and time of a request's head, and an end
//! that finishes what was accepted.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::greeting::Greeting;

/// The address at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// How connections are served.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Most open connections.
    pub connections_max: usize,
    /// Largest head of a request.
    pub header_bytes_max: usize,
    /// How long a head may take to arrive.
    pub header_timeout: Duration,
    /// How long accepted requests may take once the server is told to stop.
    pub finish_timeout: Duration,
}

/// Serves until `stop` is ready, then finishes what was accepted, within its time.
pub async fn serve(listener: TcpListener, router: Router, limits: ServerLimits, stop: impl Future<Output = ()>) {
    // A client beyond the bound waits in the system's queue until another one leaves.
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let graceful = GracefulShutdown::new();
    let builder = Arc::new(builder(&limits));
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let (place, (accepted, peer)) = tokio::select! {
            () = &mut stop => break,
            admitted = admit(&listener, &places) => admitted,
            // Ended connections are taken note of, so that the set does not grow.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let doors = TowerToHyperService::new(router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            doors.call(request)
        });
        let stream = TokioIo::new(Greeting::within(limits.header_timeout, accepted));
        let connection = graceful.watch(builder.serve_connection_with_upgrades(stream, service).into_owned());
        connections.spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                debug!(error = %error, "A connection ended early: {error}");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.finish_timeout, graceful.shutdown()).await.is_err() {
        warn!(connections = connections.len(), "{} connections were still busy and are closed", connections.len());
    }
    connections.shutdown().await;
}

fn builder(limits: &ServerLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// The next connection, once there is a place for it.
async fn admit(listener: &TcpListener, places: &Arc<Semaphore>) -> (OwnedSemaphorePermit, (TcpStream, IpAddr)) {
    let place = Arc::clone(places).acquire_owned().await.expect("nobody closes the places");
    (place, accept(listener).await)
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
