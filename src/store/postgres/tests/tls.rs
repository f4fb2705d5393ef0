//! TLS to a real PostgreSQL, through a front that speaks it: the server that the tests start is built without.
//!
//! The certificates are made by `tests/data/tls/make`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::super::{Postgres, PostgresSettings};
use super::{add, address};
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds};
use crate::scope::Scope;
use crate::store::{Store, StoreError};

/// What a client says that wants TLS: eight bytes, and a number that is no version.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls").join(name)
}

/// How clients came.
#[derive(Default)]
struct Came {
    /// Through a handshake that went well.
    safely: AtomicUsize,
    /// Without asking for TLS.
    openly: AtomicUsize,
}

/// A front of the server; `None` where there is none.
async fn front() -> Option<(u16, Arc<Came>)> {
    let behind = tokio_postgres::Config::clone(&address()?.parse().expect("an address"));
    let port = behind.get_ports().first().copied().expect("a port");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("usual versions").with_no_client_auth();
    let certificate = CertificateDer::from_pem_file(data("server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(data("server.key")).expect("its key");
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).expect("they fit")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (own, came) = (listener.local_addr().expect("an address").port(), Arc::<Came>::default());
    let counted = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, acceptor.clone(), Arc::clone(&counted), port));
        }
    });
    Some((own, came))
}

/// One client. Whoever leaves does so without a word.
async fn serve(mut client: TcpStream, acceptor: TlsAcceptor, came: Arc<Came>, port: u16) -> Option<()> {
    let mut server = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.ok()?;
    let mut first = [0; 8];
    client.read_exact(&mut first).await.ok()?;
    if first != SSL_REQUEST {
        came.openly.fetch_add(1, Ordering::SeqCst);
        server.write_all(&first).await.ok()?;
        return copy_bidirectional(&mut client, &mut server).await.ok().map(drop);
    }
    client.write_all(b"S").await.ok()?;
    let mut client = acceptor.accept(client).await.ok()?;
    came.safely.fetch_add(1, Ordering::SeqCst);
    copy_bidirectional(&mut client, &mut server).await.ok().map(drop)
}

/// A store by way of the front.
async fn open(host: &str, port: u16, mode: &str, authority: Option<&str>) -> Result<Postgres, StoreError> {
    let url = format!("postgres://recalld@{host}:{port}/postgres?sslmode={mode}");
    let settings = PostgresSettings { root_certificate: authority.map(data), ..PostgresSettings::new(&url) };
    Postgres::passing(settings, Arc::new(SystemClock::default())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_tls_speaks_it() {
    let Some((port, came)) = front().await else { return };
    for mode in ["require", "verify-full"] {
        let store = open("localhost", port, mode, Some("authority.pem")).await.expect("a store");
        let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
        add(&store, &scope, session, "said over TLS").await;
        assert_eq!(store.last_turns(&scope, session, 10).await.expect("the end").turns.len(), 1);
    }
    assert!(came.safely.load(Ordering::SeqCst) > 0);
    assert_eq!(came.openly.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wants_none_sends_none() {
    let Some((port, came)) = front().await else { return };
    open("localhost", port, "disable", None).await.expect("a store");
    assert_eq!(came.safely.load(Ordering::SeqCst), 0);
    assert!(came.openly.load(Ordering::SeqCst) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_name_is_refused() {
    let Some((port, came)) = front().await else { return };
    let refused = open("127.0.0.1", port, "require", Some("authority.pem")).await.err().expect("refused").to_string();
    assert!(refused.contains("localhost") && refused.contains("`database_url`"), "{refused}");
    assert_eq!(came.openly.load(Ordering::SeqCst), 0, "it goes on without TLS");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_is_not_known_is_refused() {
    let Some((port, came)) = front().await else { return };
    for authority in [None, Some("stranger.pem")] {
        let refused = open("localhost", port, "require", authority).await.err().expect("refused").to_string();
        assert!(refused.contains("certificate") && refused.contains("`database_root_certificate`"), "{refused}");
    }
    assert_eq!(came.openly.load(Ordering::SeqCst), 0, "it goes on without TLS");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_a_certificate_is_refused() {
    let Some((port, _)) = front().await else { return };
    let refused = open("localhost", port, "require", Some("make")).await.err().expect("refused").to_string();
    assert!(refused.contains("make is no certificate"), "{refused}");
}
