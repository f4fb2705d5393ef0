//! `recalld bench proxy`: what a proxied request costs beside a bare pass-through, in one run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use serde_json::json;

use super::bare::Bare;
use super::chatter::{Chatter, SESSION_TURNS};
use super::process::Server;
use super::scene::{CHUNKS, serve, upstream};
use super::store::{ANSWER, QUESTION, fill, settle};
use super::table::{Row, Table, machine};
use crate::id::SessionId;
use crate::model::http::{HttpClient, client};

/// Flags of `bench proxy`.
#[derive(Debug, Args)]
pub(super) struct ProxyArgs {
    /// How many requests of each kind.
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    requests: usize,
    /// How many turns the user has who asks, in all their conversations.
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

    async fn ask(&self, model: &str, stream: bool, question: &str) -> anyhow::Result<Response<Incoming>> {
        let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": question}]});
        let mut request = Request::post(&self.url).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let response = self.client.request(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
        ensure!(response.status().is_success(), "{} answered {}", self.url, response.status());
        Ok(response)
    }

    /// The time of a whole answer, and how much of it was recall, as the server says.
    async fn whole(&self, question: &str) -> anyhow::Result<(Duration, Duration)> {
        let started = Instant::now();
        let response = self.ask("m", false, question).await?;
        let recall = recall_time(response.headers());
        response.into_body().collect().await?;
        Ok((started.elapsed(), recall))
    }

    /// The time to the first byte of a stream, and to its end.
    async fn streamed(&self, question: &str) -> anyhow::Result<(Duration, Duration)> {
        let started = Instant::now();
        let mut body = self.ask("m", true, question).await?.into_body();
        body.frame().await.context("an empty stream")??;
        let first = started.elapsed();
        body.collect().await?;
        Ok((first, started.elapsed()))
    }
}

/// What `server-timing` says of recall, in milliseconds there.
fn recall_time(headers: &HeaderMap) -> Duration {
    let timing = headers.get("server-timing").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let recall = timing.split(',').find_map(|part| part.trim().strip_prefix("recall;dur="));
    Duration::from_secs_f64(recall.and_then(|millis| millis.parse::<f64>().ok()).unwrap_or_default() / 1e3)
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
    let mut chatter = Chatter::new(1);
    let mut asked_about = Vec::new();
    let said = |_| {
        let (message, reply) = (chatter.message(), chatter.reply());
        asked_about.push(message.clone());
        (message, reply)
    };
    let session = fill(&data, 2 * args.turns, SESSION_TURNS, said).await?[0];
    settle(&data).await?;
    let mut questions = questions(args, &mut chatter, &asked_about);
    let upstream = serve(upstream()).await?;
    let pass_through = Server::pass_through(upstream).await?;
    let bare = Way::new(pass_through.address, Vec::new());
    let server = Server::start_with(&data, &format!("http://{upstream}/v1")).await?;
    let off = Way::new(server.address, vec![("x-recalld-mode", "off".into())]);
    let active = Way::new(server.address, vec![("x-session-id", session.to_string())]);
    let mut table = Table { machine: machine(), rows: Vec::new() };
    table.rows.extend(whole_answers(args, [&bare, &off, &active], &mut questions, &folder.join("bare.db")).await?);
    table.rows.extend(streams(args, &bare, &active, &mut questions).await?);
    table.rows.push(open_streams(args, server).await?);
    Ok(table)
}

/// Questions about what was said, over and over, each another one than the last.
fn questions(args: &ProxyArgs, chatter: &mut Chatter, said: &[String]) -> impl Iterator<Item = String> + use<> {
    let about = |n: usize| chatter.question(&said[n * 7_919 % said.len()]);
    let asked: Vec<String> = (0..args.requests.clamp(1, 1_000)).map(about).collect();
    asked.into_iter().cycle()
}

/// Requests one after the other, the three ways in turn, so that a noisy moment hits all.
async fn whole_answers(
    args: &ProxyArgs,
    [bare, off, active]: [&Way; 3],
    questions: &mut impl Iterator<Item = String>,
    bare_data: &Path,
) -> anyhow::Result<Vec<Row>> {
    let (mut without, mut passed, mut kept, mut recalled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (n, question) in (0..args.requests + args.requests / 10).zip(questions) {
        let (bare, off, active) =
            (bare.whole(&question).await?, off.whole(&question).await?, active.whole(&question).await?);
        // The first tenth warms everything up.
        if n >= args.requests / 10 {
            without.push(bare.0);
            passed.push(off.0);
            kept.push(active.0);
            recalled.push(active.1);
        }
    }
    let commits = 1e6 / Bare::open(bare_data)?.turns_per_second(1, QUESTION, ANSWER, Duration::from_secs(2))?;
    let (without, passed) = (Times::sorted(without), Times::sorted(passed));
    let (kept, recalled) = (Times::sorted(kept), Times::sorted(recalled));
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
            must: Some("1 ms".into()),
            goal: Some("0.5 ms".into()),
            ..row("of that recall, by the server's clock, p50 (p99)", shown(&recalled), None)
        },
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

async fn streams(
    args: &ProxyArgs,
    bare: &Way,
    active: &Way,
    questions: &mut impl Iterator<Item = String>,
) -> anyhow::Result<Vec<Row>> {
    let (mut firsts, mut chunks) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for (_, question) in (0..args.requests / 10).zip(questions) {
        for (n, way) in [bare, active].into_iter().enumerate() {
            let (first, all) = way.streamed(&question).await?;
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
        let mut body = way.ask("endless", true, QUESTION).await?.into_body();
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
