//! Other processes: a running recalld, and the model's server.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Request, StatusCode};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Check, facts, jobs, live, memory, webhooks};
use crate::cli::Common;
use crate::cli::client::{Client, base_url, headers};
use crate::cli::embedder;
use crate::cli::engine::variable;
use crate::cli::failure::Failure;
use crate::cli::table::counted;
use crate::cli::upstream::{Upstream, choose};
use crate::config::Settings;
use crate::model::http::{client, root_cause};
use crate::store::{Holder, JobCounts};

/// How long anybody may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Largest list of models.
const LIST_BYTES_MAX: usize = 4 << 20;

/// The server that is given or that has the file, and whether it runs.
pub(super) async fn server(common: &Common, settings: &Settings, holder: Option<Holder>) -> (Vec<Check>, bool) {
    let url = match (common.server(), holder) {
        (Some(given), _) => base_url(given),
        (None, Some(Holder { url: Some(url), .. })) => Ok(url),
        (None, Some(holder)) => {
            let told = format!("{holder} has the data file and does not serve; other commands work when it ends");
            return (vec![Check::warn("server", told)], false);
        }
        (None, None) => return (vec![nobody_serves(settings).await], false),
    };
    let doors = url.and_then(|url| {
        let headers = headers(common, settings);
        let headers = headers.map_err(|error| Failure::Usage(format!("{error:#}")))?;
        Ok((Client::at(url.clone(), headers, settings), url))
    });
    match doors {
        Ok((doors, url)) => visit(&doors, &url).await,
        Err(failure) => (vec![Check::fail("server", failure.to_string())], false),
    }
}

async fn nobody_serves(settings: &Settings) -> Check {
    match timeout(PATIENCE, TcpStream::connect(settings.listen)).await {
        Ok(Ok(_)) => Check::warn(
            "server",
            format!(
                "none has this data file, but somebody listens on {}; `recalld serve` will need another --listen",
                settings.listen
            ),
        ),
        _ => Check::ok("server", "none runs; commands open the data file themselves (`recalld serve` starts one)"),
    }
}

async fn visit(doors: &Client, url: &str) -> (Vec<Check>, bool) {
    let ready = match timeout(PATIENCE, doors.get("/readyz")).await {
        Ok(Ok(ready)) => ready,
        Ok(Err(failure)) => return (vec![Check::fail("server", failure.to_string())], false),
        Err(_) => return (vec![Check::fail("server", format!("{url} does not answer within 2 s"))], false),
    };
    let mut checks = vec![judge_ready(url, &ready)];
    match timeout(PATIENCE, doors.stats()).await {
        Ok(Ok(stats)) => checks.extend(
            [
                Some(judge_stats(&stats)),
                judge_jobs(&stats),
                webhooks::of_stats(&stats),
                live::of_stats(&stats),
                memory::judge(&stats),
                facts::judge(&stats),
                judge_ids(&stats),
                judge_passed(&stats),
            ]
            .into_iter()
            .flatten(),
        ),
        Ok(Err(failure)) => {
            checks.push(Check::fail("stats", format!("{failure}; show a key of the server with --key or RECALLD_KEY")));
        }
        Err(_) => checks.push(Check::fail("stats", format!("{url} does not count within 2 s"))),
    }
    (checks, true)
}

/// Whether clients of `/v1` say who and where they are. Nothing to say before the first of them came.
fn judge_ids(stats: &Value) -> Option<Check> {
    let count = |name: &str| stats[name].as_u64().unwrap_or_default();
    let (all, sessions, users) = (count("chat_requests"), count("without_session"), count("without_user"));
    let told = format!("of {} under /v1, {sessions} named no session and {users} no user", counted(all, "request"));
    match (all, sessions, users) {
        (0, ..) => None,
        (_, 0, 0) => Some(Check::ok("ids", told)),
        (_, _, 0) => Some(Check::ok("ids", format!("{told}; their conversations are found by what was said in them"))),
        _ => Some(Check::warn(
            "ids",
            format!(
                "{told}; if several people use this server, have each request name its user: X-User-ID, or the signed token \
                 alone where `openwebui_jwt_secret_env` is set (Open WebUI: ENABLE_FORWARD_USER_INFO_HEADERS=true, see \
                 docs/open-webui.md)"
            ),
        )),
    }
}

/// What models generated without memory. Nothing to say while there was nothing.
fn judge_passed(stats: &Value) -> Option<Check> {
    let count = |name: &str| stats[name].as_u64().unwrap_or_default();
    let (generated, chats) = (count("generated_without_memory"), count("chats_without_memory"));
    let off = format!("{} with the mode `off` or temporary", counted(chats, "chat"));
    match (generated, chats) {
        (0, 0) => None,
        (0, _) => Some(Check::ok("passed", format!("{off} passed without memory"))),
        _ => Some(Check::warn(
            "passed",
            format!(
                "{} under /v1 that generate passed without memory (completions, responses, images, speech), and {off}; only \
                 chat/completions is remembered: switch the client to it",
                counted(generated, "request")
            ),
        )),
    }
}

/// What waits in the background. A server from before there were jobs does not say.
fn judge_jobs(stats: &Value) -> Option<Check> {
    let count = |name: &str| stats[name].as_u64();
    let (queued, failing, dead) = (count("jobs_queued")?, count("jobs_failing")?, count("jobs_dead")?);
    let last_error = stats["jobs_last_error"].as_str().map(str::to_owned);
    Some(jobs::judge(&JobCounts { queued, failing, running: 0, dead, last_error }))
}

fn judge_ready(url: &str, ready: &Value) -> Check {
    let version = ready["version"].as_str().unwrap_or("unknown");
    match ready["status"].as_str() {
        Some("ok") if version == env!("CARGO_PKG_VERSION") => Check::ok("server", format!("{url} is ready")),
        Some("ok") => Check::warn("server", format!("{url} is ready; it is version {version}, restart it to update")),
        Some(status) => match ready["log_damage"].as_str() {
            Some(damage) => Check::warn("server", format!("{url} is {status}: {damage}")),
            None => Check::warn("server", format!("{url} is {status}; its log says why")),
        },
        None => Check::fail("server", format!("{url} does not answer as recalld does")),
    }
}

fn judge_stats(stats: &Value) -> Check {
    let count = |name: &str| stats[name].as_u64().unwrap_or_default();
    let model = stats["model"].as_str().unwrap_or("unknown");
    let (sessions, turns) = (counted(count("sessions"), "session"), counted(count("turns"), "turn"));
    let told = format!("{sessions} and {turns} of yours; {model} answers");
    match count("waiting_turns") {
        0 => Check::ok("stats", told),
        waiting => Check::warn(
            "stats",
            format!("{told}; {} waiting for the disk: make room or check it", counted(waiting, "turn")),
        ),
    }
}

/// Who would answer, and whether it can. When a server runs it has made its own choice, perhaps with
/// other variables than this shell's; then this is only a warning.
pub(super) async fn model(settings: &Settings, server_runs: bool) -> Check {
    let choice = match choose(settings, variable) {
        Ok(choice) => choice,
        Err(reason) => return Check::fail("model", reason),
    };
    let why = choice.why;
    let Upstream::Server { url, key, model } = choice.upstream else {
        let told = "recalld-builtin: quotes what was said; connect a language model with --upstream URL";
        return Check::ok("model", format!("{told} ({why})"));
    };
    match list_models(&url, key.as_deref()).await {
        Ok(list) => judge_list(&url, model.as_deref(), &list, &why),
        Err(reason) if server_runs => {
            Check::warn("model", format!("{reason} ({why}, in this shell; the running server may know better)"))
        }
        Err(reason) => Check::fail("model", format!("{reason} ({why})")),
    }
}

/// Who makes vectors, and whether it does.
pub(super) async fn embedder(settings: &Settings, server_runs: bool) -> Check {
    let choice = match embedder::choose(settings, variable) {
        Ok(choice) => choice,
        Err(reason) => return Check::fail("embedder", reason),
    };
    let told = choice.told();
    match timeout(PATIENCE, try_out(choice)).await {
        Ok(Ok(id)) => Check::ok("embedder", format!("{told} answers ({id})")),
        Ok(Err(reason)) if server_runs => {
            Check::warn("embedder", format!("{reason} (in this shell; the running server may know better)"))
        }
        Ok(Err(reason)) => Check::fail("embedder", format!("{reason}; \"builtin\" needs nothing")),
        Err(_) => Check::warn("embedder", format!("{told} does not answer within 2 s; recall goes by words meanwhile")),
    }
}

async fn try_out(choice: embedder::Choice) -> Result<String, String> {
    let opened = embedder::open(choice).await.map_err(|error| format!("{error:#}"))?;
    let vectors = opened.embed(&["Is anybody there?".to_owned()]).await.map_err(|error| error.to_string())?;
    match vectors.first() {
        Some(vector) if vector.len() == opened.dimensions() => Ok(opened.id().to_string()),
        _ => Err("the embedder gives no vector for a plain sentence".to_owned()),
    }
}

fn judge_list(url: &str, model: Option<&str>, list: &[String], why: &str) -> Check {
    match (model, list.first()) {
        // Some servers list nothing and answer all the same.
        (Some(model), None) => Check::ok("model", format!("{model} at {url} ({why})")),
        (Some(model), _) if list.iter().any(|name| is_same(name, model)) => {
            Check::ok("model", format!("{model} at {url} ({why})"))
        }
        (Some(model), Some(first)) => {
            let told = format!("{url} does not list `{model}`; it has {} others, such as `{first}`", list.len());
            Check::warn("model", format!("{told}; set `model`"))
        }
        (None, Some(first)) => Check::ok("model", format!("{first} at {url}, the first it lists ({why})")),
        (None, None) => Check::warn("model", format!("{url} lists no models; set `model` ({why})")),
    }
}

/// Ollama lists `llama3.2:latest` and answers to `llama3.2`.
pub(super) fn is_same(listed: &str, asked: &str) -> bool {
    listed == asked || listed.strip_suffix(":latest") == Some(asked)
}

pub(super) async fn list_models(url: &str, key: Option<&str>) -> Result<Vec<String>, String> {
    timeout(PATIENCE, ask_for_models(url, key))
        .await
        .unwrap_or_else(|_| Err(format!("{url} does not answer within 2 s")))
}

async fn ask_for_models(url: &str, key: Option<&str>) -> Result<Vec<String>, String> {
    let mut request = Request::get(format!("{url}/models"))
        .body(Full::<Bytes>::default())
        .map_err(|error| format!("{url} is not a URL: {error}"))?;
    if let Some(key) = key {
        let bearer = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| "the key cannot be sent".to_owned())?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    let sent = client(PATIENCE).request(request).await;
    let response = sent.map_err(|error| format!("cannot reach {url}: {}; does it run?", root_cause(&error)))?;
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(format!("{url} refuses the key; see `upstream_key_env` and `memory_key_env`"));
        }
        StatusCode::NOT_FOUND => return Err(format!("{url} has no list of models; does the URL end in /v1?")),
        status if !status.is_success() => return Err(format!("{url} answers with {status}")),
        _ => {}
    }
    let body = Limited::new(response.into_body(), LIST_BYTES_MAX).collect().await;
    let bytes = body.map_err(|error| format!("{url} broke off: {error}"))?.to_bytes();
    names(&bytes).ok_or_else(|| format!("{url} does not answer as OpenAI's API does"))
}

fn names(list: &[u8]) -> Option<Vec<String>> {
    let list: Value = serde_json::from_slice(list).ok()?;
    let names = list.get("data")?.as_array()?.iter().filter_map(|model| model["id"].as_str());
    Some(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use serde_json::json;

    #[test]
    fn turns_that_wait_are_a_warning() {
        let stats = |waiting: u64| json!({ "sessions": 1, "turns": 2, "waiting_turns": waiting, "model": "m" });
        assert_eq!(judge_stats(&stats(0)).status, Status::Ok);
        let ids = |users: u64| json!({ "chat_requests": 9, "without_session": 4, "without_user": users });
        assert!(judge_ids(&stats(0)).is_none());
        assert_eq!(judge_ids(&ids(0)).expect("requests came").status, Status::Ok);
        assert_eq!(judge_ids(&ids(2)).expect("requests came").status, Status::Warn);
        let passed = |generated: u64, chats: u64| {
            judge_passed(&json!({ "generated_without_memory": generated, "chats_without_memory": chats }))
        };
        assert!(passed(0, 0).is_none());
        assert_eq!(passed(0, 1).expect("told").status, Status::Ok);
        assert_eq!(passed(2, 1).expect("told").status, Status::Warn);
        let waiting = judge_stats(&stats(3));
        assert_eq!(waiting.status, Status::Warn);
        assert!(waiting.detail.contains("3 turns waiting"), "{}", waiting.detail);
    }

    #[test]
    fn readiness_is_told() {
        let ready =
            |status: &str, version: &str| judge_ready("u", &json!({ "status": status, "version": version })).status;
        assert_eq!(ready("ok", env!("CARGO_PKG_VERSION")), Status::Ok);
        assert_eq!(ready("ok", "0.0.0"), Status::Warn);
        assert_eq!(ready("degraded", env!("CARGO_PKG_VERSION")), Status::Warn);
        assert_eq!(judge_ready("u", &json!([])).status, Status::Fail);
    }

    #[track_caller]
    fn check(model: Option<&str>, list: &[&str], expected: Status) {
        let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(judge_list("u", model, &list, "w").status, expected);
    }

    #[test]
    fn a_model_the_server_does_not_have_is_a_warning() {
        check(Some("llama3.2"), &["qwen", "llama3.2:latest"], Status::Ok);
        check(Some("llama3.2"), &["qwen"], Status::Warn);
        check(Some("llama3.2"), &[], Status::Ok);
        check(None, &["qwen"], Status::Ok);
        check(None, &[], Status::Warn);
    }

    #[test]
    fn a_list_of_models_is_read() {
        assert_eq!(names(br#"{"data":[{"id":"a"},{"id":"b"}]}"#), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(names(b"<html>"), None);
    }

    #[tokio::test]
    async fn an_embedder_is_tried_out() {
        let with =
            |embedder: &str| Settings { embedder: embedder.into(), embedder_model: "m".into(), ..Settings::default() };
        let builtin = embedder(&with("builtin"), false).await;
        assert_eq!((builtin.status, builtin.detail.contains("builtin-256")), (Status::Ok, true), "{}", builtin.detail);
        assert_eq!(embedder(&with("/nowhere"), false).await.status, Status::Fail);
        assert_eq!(embedder(&with("src"), false).await.status, Status::Fail, "a folder without a model");
        assert_eq!(embedder(&with("src"), true).await.status, Status::Warn);
    }

    #[tokio::test]
    async fn a_model_that_is_not_there_is_a_failure() {
        // Port 9 is where nobody listens.
        let reason = list_models("http://127.0.0.1:9/v1", None).await.expect_err("nobody there");
        assert!(reason.contains("cannot reach"), "{reason}");
    }
}
