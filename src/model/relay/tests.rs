//! The relay against everything a server can do wrong.

mod server;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, future::join_all};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderValue, USER_AGENT};
use serde_json::Value;

use super::*;
use crate::model::openai::{OpenAi, OpenAiSettings};
use server::{KEY, Script, Seen, Then, answering, playing, settings};

const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What a client got.
#[derive(Debug)]
struct Got {
    status: u16,
    headers: HeaderMap,
    body: String,
    said: Said,
    /// Why there is no more of it.
    stopped: Option<String>,
}

/// Passes a question on as a door would.
async fn ask(upstream: &impl Upstream) -> Result<Got, ModelError> {
    pass(upstream, Method::POST, "chat/completions").await
}

async fn pass(upstream: &impl Upstream, method: Method, path: &str) -> Result<Got, ModelError> {
    let Relayed { status, headers, body: mut chunks } = upstream.pass(passed(method, path)).await?;
    let mut tee = Tee::new(TeeKind::of(&headers, true), false, TeeBounds::new(ANSWER_BYTES_MAX));
    let (mut body, mut stopped) = (Vec::new(), None);
    while !tee.is_over() {
        let Some(chunk) = chunks.next().await else { break };
        match chunk.map(|chunk| tee.feed(&chunk)) {
            Ok(Ok(forward)) => body.extend(forward),
            Ok(Err(error)) => {
                stopped = Some(error.to_string());
                body.extend(error.before);
            }
            Err(error) => stopped = Some(error.to_string()),
        }
    }
    drop(chunks);
    body.extend(tee.end());
    let body = String::from_utf8(body).expect("text");
    Ok(Got { status: status.as_u16(), headers, body, said: tee.finish(), stopped })
}

fn passed(method: Method, path: &str) -> Passed {
    let body =
        if method == Method::POST { r#"{"messages":[{"role":"user","content":"hi"}],"stream":true}"# } else { "" };
    Passed { method, path: path.into(), headers: HeaderMap::new(), body: body.into(), bearer: None }
}

/// A response that says how long it is.
fn sized(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// An event stream in these chunks, without its end.
fn events(chunks: &[&str]) -> String {
    let chunks: String = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
    format!("{EVENTS}{chunks}")
}

const HEL: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"}}]}\n\n";
const LO: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn content(said: &Said) -> &str {
    said.choices.first().and_then(|choice| choice.message["content"].as_str()).unwrap_or("")
}

#[tokio::test]
async fn a_request_leaves_with_our_key_and_nothing_private() {
    let (model, seen) = answering(sized("200 OK\r\ncontent-type: application/json", "{}"), || Then::Close);
    let mut request = passed(Method::POST, "/chat/completions?beta=1");
    for (name, value) in [("cookie", "c"), ("x-api-key", "k"), ("authorization", "Bearer rk_x"), ("user-agent", "sdk")]
    {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    request.headers.insert("openai-beta", HeaderValue::from_static("yes"));
    request.headers.insert("x-stainless-lang", HeaderValue::from_static("python"));
    request.bearer = Some("client-key".into());
    model.pass(request).await.expect("an answer");
    let sent = seen.last_request.lock().expect("no panics").clone();
    assert!(sent.starts_with("POST /v1/chat/completions?beta=1 HTTP/1.1\r\n"), "{sent}");
    for part in
        [&format!("authorization: Bearer {KEY}\r\n"), "openai-beta: yes", "x-stainless-lang: python", "recalld/"]
    {
        assert!(sent.contains(part), "{part} in {sent}");
    }
    assert!(
        sent.ends_with("\r\n\r\n{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true}"),
        "{sent}"
    );
    for part in ["cookie", "x-api-key", "rk_x", "client-key", "sdk"] {
        assert!(!sent.contains(part), "{part} in {sent}");
    }
}

#[tokio::test]
async fn without_a_key_of_ours_the_clients_is_used() {
    let (_, seen) = answering(sized("200 OK\r\ncontent-type: application/json", "{}"), || Then::Close);
    let model = OpenAi::new(OpenAiSettings { key: None, ..settings(&seen.url()) }).expect("good settings");
    let request = Passed { bearer: Some("client-key".into()), ..passed(Method::GET, "models") };
    model.pass(request).await.expect("an answer");
    let sent = seen.last_request.lock().expect("no panics").clone();
    assert!(sent.starts_with("GET /v1/models HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("authorization: Bearer client-key\r\n"), "{sent}");
    assert!(!sent.contains("content-type"), "{sent}");
}

#[tokio::test]
async fn a_stream_comes_back_as_it_was_sent() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nx-request-id: req_1\r\n\
                x-ratelimit-remaining-requests: 9\r\nset-cookie: secret\r\nserver: x\r\nconnection: close\r\n\r\n";
    let (model, _) = answering(format!("{head}: hello\n\n{HEL}{LO}{DONE}{DONE}"), || Then::Close);
    let got = ask(&model).await.expect("an answer");
    assert_eq!(got.body, format!(": hello\n\n{HEL}{LO}"));
    assert_eq!((content(&got.said), got.said.ended, got.stopped), ("Hello", true, None));
    let mut names: Vec<&str> = got.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "x-ratelimit-remaining-requests", "x-request-id"]);
}

const FIRST_BYTE: Duration = Duration::from_millis(400);

/// A model that does not wait long.
fn hurried(seen: &Seen) -> OpenAi {
    let idle_timeout = FIRST_BYTE / 2;
    let settings = OpenAiSettings { first_byte_timeout: FIRST_BYTE, idle_timeout, ..settings(&seen.url()) };
    OpenAi::new(settings).expect("good settings")
}

#[tokio::test]
async fn silence_instead_of_an_answer_ends() {
    let (_, seen) = answering("", || Then::Hang);
    assert_eq!(ask(&hurried(&seen)).await.err(), Some(ModelError::Silent(FIRST_BYTE)));
    assert!(seen.somebody_left().await);
    assert_eq!(seen.requests(), 1, "the patience of whoever waits is used up");

    let (_, seen) = answering(EVENTS, || Then::Hang);
    let (started, got) = (Instant::now(), ask(&hurried(&seen)).await.expect("a status"));
    assert!(got.stopped.expect("an error").contains("said nothing"));
    assert!(started.elapsed() >= FIRST_BYTE, "a model may think before its first byte");
    assert!(seen.somebody_left().await);
}

#[tokio::test]
async fn silence_within_an_answer_ends_it() {
    let (_, seen) = answering(events(&[HEL]), || Then::Hang);
    let got = ask(&hurried(&seen)).await.expect("a status");
    assert_eq!((got.body.as_str(), content(&got.said), got.said.ended), (HEL, "Hel", false));
    assert!(got.stopped.expect("an error").contains("said nothing"));
    assert!(seen.somebody_left().await);
}

#[tokio::test]
async fn a_server_that_says_done_and_stays_is_not_waited_for() {
    let (model, seen) = answering(events(&[HEL, LO, DONE]), || Then::Hang);
    let got = ask(&model).await.expect("a status");
    assert_eq!((content(&got.said), got.said.ended, got.stopped), ("Hello", true, None));
    assert!(seen.somebody_left().await);
}

#[tokio::test]
async fn a_reset_before_the_answer_is_tried_again() {
    let (model, seen) = playing(|before| match before {
        0 => Script { bytes: Vec::new(), then: Then::Reset },
        _ => Script { bytes: format!("{}0\r\n\r\n", events(&[HEL, LO, DONE])).into(), then: Then::Close },
    });
    assert_eq!(content(&ask(&model).await.expect("an answer").said), "Hello");
    assert_eq!(seen.requests(), 2);

    let (model, seen) = answering("", || Then::Reset);
    assert!(matches!(ask(&model).await, Err(ModelError::Unreachable { .. })));
    assert!(seen.requests() <= 3);
}

#[tokio::test]
async fn nothing_is_tried_again_once_an_answer_began() {
    for then in [|| Then::Reset, || Then::Close] {
        let (model, seen) = answering(events(&[HEL]), then);
        let got = ask(&model).await.expect("a status");
        assert_eq!((got.body.as_str(), content(&got.said), got.said.ended), (HEL, "Hel", false));
        assert!(got.stopped.expect("an error").contains("broke off"));
        assert_eq!(seen.requests(), 1);
    }
}

#[tokio::test]
async fn a_truncated_chunk_loses_only_what_was_not_whole() {
    let cut = format!("{}ff\r\ndata: {{\"choi", events(&[HEL]));
    let (model, seen) = answering(cut, || Then::Close);
    let got = ask(&model).await.expect("a status");
    assert_eq!((got.body.as_str(), got.said.ended), (HEL, false));
    assert!(got.stopped.is_some());
    assert_eq!(seen.requests(), 1);
}

#[tokio::test]
async fn garbage_does_not_reach_the_client() {
    for garbage in ["data: {{\n\n", "data: 5\n\n", "data: <html>\n\n"] {
        let (model, seen) = answering(events(&[&format!("{HEL}{garbage}{LO}")]), || Then::Hang);
        let got = ask(&model).await.expect("a status");
        assert_eq!((got.body.as_str(), content(&got.said), got.said.ended), (HEL, "Hel", false));
        assert!(got.stopped.expect("an error").contains("not a JSON object"));
        assert!(seen.somebody_left().await);
    }
}

#[tokio::test]
async fn a_whole_answer_of_the_wrong_shape_says_so() {
    for body in ["[]", "<html>", "{\"choices\":[]}", "{\"error\":{\"message\":\"quota\"}}"] {
        let (model, _) = answering(sized("200 OK\r\ncontent-type: application/json", body), || Then::Close);
        let got = ask(&model).await.expect("a status");
        assert_eq!((got.body.as_str(), got.said.ended), (body, false));
        assert!(got.said.error.is_some(), "{body}");
    }
}

#[tokio::test]
async fn a_line_without_end_is_cut_off() {
    let (model, seen) =
        answering(events(&[HEL, "data: \""]), || Then::Repeat(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).into()));
    let got = ask(&model).await.expect("a status");
    assert_eq!((got.body.as_str(), content(&got.said)), (HEL, "Hel"));
    assert!(got.stopped.expect("an error").contains("longer than 8388608 bytes"));
    assert!(seen.somebody_left().await);
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let (model, seen) = answering(EVENTS, || Then::Repeat(format!("{:x}\r\n{HEL}\r\n", HEL.len()).into()));
    let got = ask(&model).await.expect("a status");
    assert!(got.stopped.expect("an error").contains("longer than 65536 bytes"));
    assert!(content(&got.said).len() <= ANSWER_BYTES_MAX);
    assert!(seen.somebody_left().await);
}

#[tokio::test]
async fn a_slow_reader_slows_the_server_down() {
    let (model, seen) = answering(EVENTS, || Then::Repeat(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).into()));
    let mut relayed = model.pass(passed(Method::POST, "chat/completions")).await.expect("a status");
    relayed.body.next().await.expect("a chunk").expect("bytes");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let sent = seen.bytes_sent.load(Ordering::SeqCst);
    assert!(sent < 32 << 20, "{sent} bytes wait in buffers");
    drop(relayed);
    assert!(seen.somebody_left().await, "who stops reading leaves");
}

#[tokio::test]
async fn a_redirect_is_an_error_and_not_followed() {
    let (_, elsewhere) = answering("", || Then::Close);
    let location = format!("302 Found\r\nlocation: {}", elsewhere.url());
    let (model, _) = answering(sized(&location, ""), || Then::Close);
    let Err(ModelError::Refused { status, message, .. }) = ask(&model).await else { panic!("refused") };
    assert_eq!(status, 302);
    assert!(message.contains("redirects are not followed"), "{message}");
    assert_eq!(elsewhere.requests(), 0);
}

#[track_caller]
fn check_error(got: &Got, status: u16, message: &str) {
    let body: Value = serde_json::from_str(&got.body).expect("JSON");
    assert_eq!((got.status, body["error"]["message"].as_str()), (status, Some(message)));
    assert_eq!(got.headers[CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn an_error_passes_back_in_the_shape_clients_expect() {
    let own = format!(r#"{{"error":{{"message":"wrong key {KEY}","type":"auth","code":"invalid_api_key"}}}}"#);
    let (model, seen) = answering(sized("401 Unauthorized\r\ncontent-type: application/json", &own), || Then::Close);
    let got = ask(&model).await.expect("a status");
    check_error(&got, 401, "wrong key …");
    assert!(got.body.contains("invalid_api_key"), "the rest is as it came: {}", got.body);
    assert_eq!(seen.requests(), 1);

    let (model, _) = answering(sized("404 Not Found\r\ncontent-type: text/html", "<h1>no</h1>"), || Then::Close);
    check_error(&ask(&model).await.expect("a status"), 404, "<h1>no</h1>");

    let (model, _) = answering(sized("400 Bad Request", r#"{"error":"no such model"}"#), || Then::Close);
    check_error(&ask(&model).await.expect("a status"), 400, "no such model");
}

#[tokio::test]
async fn a_busy_server_is_asked_again_unless_it_wants_to_be_left_alone() {
    let (model, seen) = answering(sized("429 Too Many Requests\r\nretry-after: 60", "slow down"), || Then::Close);
    let got = ask(&model).await.expect("a status");
    check_error(&got, 429, "slow down");
    assert_eq!((&got.headers["retry-after"], seen.requests()), (&HeaderValue::from_static("60"), 1));

    let (model, seen) = answering(sized("429 Too Many Requests", ""), || Then::Close);
    check_error(&ask(&model).await.expect("a status"), 429, "Too Many Requests");
    assert_eq!(seen.requests(), 3);
}

#[tokio::test]
async fn a_storm_is_met_with_few_retries() {
    for status in ["500 Internal Server Error", "503 Service Unavailable"] {
        let (model, seen) = answering(sized(status, ""), || Then::Close);
        let all = join_all((0..100).map(|_| ask(&model))).await;
        assert!(all.iter().all(|got| got.as_ref().is_ok_and(|got| got.status >= 500)));
        assert!((100..=120).contains(&seen.requests()), "{} for 100 requests", seen.requests());
    }
}

#[tokio::test]
async fn nobody_there_is_known_quickly() {
    let started = Instant::now();
    let model = OpenAi::new(settings("http://127.0.0.1:1/v1")).expect("good settings");
    assert!(matches!(ask(&model).await, Err(ModelError::Unreachable { .. })));
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_path_stays_below_the_base_url() {
    let (model, seen) = answering(sized("200 OK", "{}"), || Then::Close);
    for path in ["../admin", "models/../../admin", "models/%2E%2e/x", "a\\..\\b", "no spaces"] {
        let refused = pass(&model, Method::GET, path).await;
        assert!(matches!(refused, Err(ModelError::Refused { status: 404, .. })), "{path}: {refused:?}");
    }
    assert_eq!(seen.requests(), 0);
}

#[test]
fn headers_pass_by_allow_list() {
    let mut headers = HeaderMap::new();
    for name in [COOKIE, AUTHORIZATION, USER_AGENT, CONTENT_TYPE] {
        headers.insert(name, HeaderValue::from_static("x"));
    }
    for name in ["openai-organization", "x-recalld-mode", "traceparent", "retry-after-ms", "x-ratelimit-limit-tokens"] {
        headers.append(name, HeaderValue::from_static("1"));
    }
    let names = |headers: HeaderMap| {
        let mut names: Vec<String> = headers.keys().map(|name| name.as_str().to_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(onward(&headers)), ["content-type", "openai-organization", "traceparent"]);
    let back = ["content-type", "openai-organization", "retry-after-ms", "x-ratelimit-limit-tokens"];
    assert_eq!(names(homeward(&headers)), back);
}
