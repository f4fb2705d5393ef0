//! `recalld bench proxy`: what a proxied request costs beside a bare pass-through, in one run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use serde_json::json;

use super::bare::Bare;
use super::process::Server;
use super::scene::{CHUNKS, serve, upstream};
use super::store::{ANSWER, QUESTION, fill};
use super::table::{Row, Table, machine};
use crate::id::SessionId;
use crate::model::http::{HttpClient, client};

/// Flags of `bench proxy`.
#[derive(Debug, Args)]
pub(super) struct ProxyArgs {
    /// How many requests of each kind.
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    requests: usize,
    /// How many turns the conversation holds that is asked in.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    turns: usize,
    /// How many streams are held open.
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    streams: usize,
    /// Where to work; the folder is emptied afterwards.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) async fn run(args: &ProxyArgs) -> anyhow::Result<Table> {
    let base = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = base.join(format!("recalld-bench-proxy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let measured = measure(args, &folder).await;
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

/// Who is asked, and how.
#[derive(Clone)]
struct Way {
    client: HttpClient,
    url: String,
    headers: Vec<(&'static str, String)>,
}

impl Way {
    fn new(address: SocketAddr, headers: Vec<(&'static str, String)>) -> Self {
        Self { client: client(Duration::from_secs(5)), url: format!("http://{address}/v1/chat/completions"), headers }
    }

    async fn ask(&self, model: &str, stream: bool) -> anyhow::Result<Incoming> {
        let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": QUESTION}]});
        let mut request = Request::post(&self.url).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let response = self.client.request(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
        ensure!(response.status().is_success(), "{} answered {}", self.url, response.status());
        Ok(response.into_body())
    }

    /// The time of a whole answer.
    async fn whole(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        self.ask("m", false).await?.collect().await?;
        Ok(started.elapsed())
    }

    /// The time to the first byte of a stream, and to its end.
    async fn streamed(&self) -> anyhow::Result<(Duration, Duration)> {
        let started = Instant::now();
        let mut body = self.ask("m", true).await?;
        body.frame().await.context("an empty stream")??;
        let first = started.elapsed();
        body.collect().await?;
        Ok((first, started.elapsed()))
    }
}

/// Times in order.
struct Times(Vec<Duration>);

impl Times {
    fn at(&self, share: f64) -> f64 {
        self.0[(self.0.len() as f64 * share) as usize].as_secs_f64() * 1e6
    }

    fn sorted(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }
}

async fn measure(args: &ProxyArgs, folder: &Path) -> anyhow::Result<Table> {
    let data = folder.join("proxy.db");
    let session = fill(&data, 2 * args.turns, args.turns).await?[0];
    let upstream = serve(upstream()).await?;
    let pass_through = Server::pass_through(upstream).await?;
    let bare = Way::new(pass_through.address, Vec::new());
    let server = Server::start_with(&data, &format!("http://{upstream}/v1")).await?;
    let off = Way::new(server.address, vec![("x-recalld-mode", "off".into())]);
    let active = Way::new(server.address, vec![("x-session-id", session.to_string())]);
    let mut table = Table { machine: machine(), rows: Vec::new() };
    table.rows.extend(whole_answers(args, &bare, &off, &active, &folder.join("bare.db")).await?);
    table.rows.extend(streams(args, &bare, &active).await?);
    table.rows.push(open_streams(args, server).await?);
    Ok(table)
}

/// Requests one after the other, the three ways in turn, so that a noisy moment hits all.
async fn whole_answers(
    args: &ProxyArgs,
    bare: &Way,
    off: &Way,
    active: &Way,
    bare_data: &Path,
) -> anyhow::Result<Vec<Row>> {
    let (mut without, mut passed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..args.requests + args.requests / 10 {
        let times = (bare.whole().await?, off.whole().await?, active.whole().await?);
        // The first tenth warms everything up.
        if n >= args.requests / 10 {
            without.push(times.0);
            passed.push(times.1);
            kept.push(times.2);
        }
    }
    let commits = 1e6 / Bare::open(bare_data)?.turns_per_second(1, QUESTION, ANSWER, Duration::from_secs(2))?;
    let (without, passed, kept) = (Times::sorted(without), Times::sorted(passed), Times::sorted(kept));
    let shown = |times: &Times| format!("{:.0} µs ({:.0} µs)", times.at(0.5), times.at(0.99));
    let beside = Some(format!("{} (bare axum pass-through)", shown(&without)));
    let active_row =
        row(&format!("request, active, {} turns stored, p50 (p99)", args.turns), shown(&kept), beside.clone());
    let added = kept.at(0.5) - passed.at(0.5);
    Ok(vec![
        Row {
            ratio: Some(passed.at(0.5) / without.at(0.5)),
            must: Some("1.5 ×".into()),
            goal: Some("1.2 ×".into()),
            ..row("request, memory off, p50 (p99)", shown(&passed), beside)
        },
        Row { ratio: Some(kept.at(0.5) / without.at(0.5)), ..active_row },
        Row {
            ratio: Some(added / commits),
            ..row(
                "what being active adds, p50",
                format!("{added:.0} µs"),
                Some(format!("{commits:.0} µs (the two commits of a turn, bare rusqlite)")),
            )
        },
    ])
}

async fn streams(args: &ProxyArgs, bare: &Way, active: &Way) -> anyhow::Result<Vec<Row>> {
    let (mut firsts, mut chunks) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..args.requests / 10 {
        for (n, way) in [bare, active].into_iter().enumerate() {
            let (first, all) = way.streamed().await?;
            firsts[n].push(first);
            chunks[n].push((all - first) / CHUNKS as u32);
        }
    }
    let rows = [("first byte of a stream, p50", firsts), ("each chunk of a stream, p50", chunks)];
    Ok(rows
        .into_iter()
        .map(|(what, [bare, ours])| {
            let (bare, ours) = (Times::sorted(bare).at(0.5), Times::sorted(ours).at(0.5));
            let beside = Some(format!("{bare:.0} µs (bare axum pass-through)"));
            Row { ratio: Some(ours / bare), ..row(what, format!("{ours:.0} µs"), beside) }
        })
        .collect())
}

/// Memory with many streams open at once, each in a conversation of its own.
async fn open_streams(args: &ProxyArgs, server: Server) -> anyhow::Result<Row> {
    let before = server.resident_bytes()?;
    let mut open = Vec::with_capacity(args.streams);
    for _ in 0..args.streams {
        let way =
            Way::new(server.address, vec![("x-session-id", SessionId::from_uuid(uuid::Uuid::new_v4()).to_string())]);
        let mut body = way.ask("endless", true).await?;
        body.frame().await.context("an empty stream")??;
        open.push((way, body));
    }
    let after = server.resident_bytes()?;
    let each = after.saturating_sub(before) as f64 / args.streams as f64 / 1e3;
    let measured = format!("{:.0} MB ({each:.0} kB a stream)", after as f64 / 1e6);
    Ok(row(&format!("memory (RSS) with {} open streams", args.streams), measured, None))
}

fn row(what: &str, measured: String, beside: Option<String>) -> Row {
    Row { what: what.to_owned(), measured, beside, ratio: None, must: None, goal: None }
}
