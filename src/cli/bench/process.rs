//! The binary as a process: how fast it is ready, how much it weighs.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::Full;

use crate::model::http::client;

/// A server that was started for measuring.
pub(super) struct Server {
    child: Child,
    pub(super) ready_after: Duration,
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts this binary on a data file and waits until it is ready.
    pub(super) async fn start(data: &Path) -> anyhow::Result<Self> {
        Self::start_with(data, "builtin").await
    }

    /// The same, with an upstream.
    pub(super) async fn start_with(data: &Path, upstream: &str) -> anyhow::Result<Self> {
        let (address, data) = (free_address()?, data.display().to_string());
        let listen = address.to_string();
        Self::run(address, &["serve", "--upstream", upstream, "--model", "m", "--listen", &listen, "--data", &data])
            .await
    }

    /// The bare pass-through, in a process of its own as the server is.
    pub(super) async fn pass_through(upstream: SocketAddr) -> anyhow::Result<Self> {
        let address = free_address()?;
        Self::run(address, &["bench", "pass-through", &address.to_string(), &upstream.to_string()]).await
    }

    async fn run(address: SocketAddr, arguments: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let started = Instant::now();
        let child = Command::new(program)
            .args(arguments)
            .env("RECALLD_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a server")?;
        let mut server = Self { child, ready_after: Duration::ZERO, address };
        wait_until_ready(address, &mut server.child).await?;
        server.ready_after = started.elapsed();
        Ok(server)
    }

    /// Resident memory in bytes.
    pub(super) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).context("no /proc here")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().context("VmRSS is no number")?;
        Ok(kilobytes * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    listener.local_addr().context("the port has no address")
}

async fn wait_until_ready(address: SocketAddr, child: &mut Child) -> anyhow::Result<()> {
    let client = client(Duration::from_secs(1));
    let url: hyper::Uri = format!("http://{address}/readyz").parse().context("an address is a URL")?;
    for _ in 0..60_000 {
        let request = hyper::Request::get(url.clone()).body(Full::<Bytes>::default()).context("a plain request")?;
        if client.request(request).await.is_ok_and(|response| response.status().is_success()) {
            return Ok(());
        }
        if let Some(status) = child.try_wait().context("the server cannot be watched")? {
            bail!("the server ended before it was ready: {status}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    bail!("the server was not ready within a minute")
}
