//! Requests from pages of other sites.

use std::sync::Arc;

use axum::body::Body;
use recalld::config::Origins;
use serde_json::json;

use crate::house::{Ask, House, SESSION};
use crate::upstream::{Recording, recording};

const KEY: &str = "rk_0123456789abcdef";
const LISTED: &str = "https://chat.example";

/// Requests that cost the operator something, each as a page can send it without being asked first.
fn costly() -> Vec<(&'static str, String)> {
    let posts = [
        "/v1/completions",
        "/v1/embeddings",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/chat/completions",
        "/v1/acme/completions",
        "/chat",
        "/api/v1/cleanup",
        "/api/v1/backup",
        "/api/v1/recall",
        "/api/v1/sessions",
        "/api/v1/knowledge?name=a.txt",
    ];
    let session = |rest: &str| format!("/api/v1/sessions/{SESSION}{rest}");
    let posts = posts.map(|path| ("POST", path.to_owned())).into_iter();
    posts
        .chain([
            ("POST", session("/end")),
            ("POST", session("/digest")),
            ("PATCH", session("")),
            ("DELETE", session("")),
        ])
        .collect()
}

fn open(set: impl FnOnce(&mut recalld::config::Settings)) -> (House, Arc<Recording>) {
    let upstream = recording();
    (House::plan().upstream(Arc::clone(&upstream) as _).setting(set).open(), upstream)
}

fn listing(origins: &[&str]) -> Origins {
    Origins::try_from(origins.iter().map(|origin| (*origin).to_owned()).collect::<Vec<_>>()).expect("origins")
}

fn plain(ask: Ask<'_>) -> impl Future<Output = crate::house::Answer> {
    ask.header("content-type", "text/plain").body(Body::from("{\"model\":\"m\"}"))
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing_and_spends_nothing() {
    let (house, upstream) = open(|_| ());
    for origin in
        ["https://evil.example", "null", "http://localhost:3000", "https://localhost:8443", "http://localhost.evil"]
    {
        for (method, path) in costly() {
            let answer = plain(house.ask(method, &path).header("origin", origin)).await;
            assert_eq!((answer.status, answer.code()), (403, "foreign_origin"), "{method} {path} from {origin}");
            assert_eq!(answer.header("access-control-allow-origin"), "", "{method} {path}");
            let error = &answer.json()["error"];
            assert_eq!(error.is_object(), path.starts_with("/v1/"), "OpenAI's shape under /v1 alone: {error}");
        }
    }
    assert!(upstream.seen().is_empty(), "nothing was asked of the model");
}

#[tokio::test]
async fn a_key_does_not_make_a_foreign_page_welcome() {
    let (house, upstream) = open(|settings| settings.api_key = KEY.into());
    let ask = house.post("/v1/completions").header("x-api-key", KEY).header("origin", "https://evil.example");
    assert_eq!(plain(ask).await.code(), "foreign_origin");
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn looking_and_programs_and_our_own_pages_are_not_held_up() {
    let (house, _) = open(|_| ());
    let asked = || json!({"query": "hello"});
    assert_eq!(house.post("/chat").json(asked()).await.status, 200, "a program names no origin");
    for (host, origin) in [
        ("localhost:7077", "http://localhost:7077"),
        ("LOCALHOST:7077", "http://localhost:7077"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost:443"),
    ] {
        let answer = house.post("/chat").header("host", host).header("origin", origin).json(asked()).await;
        assert_eq!(answer.status, 200, "{origin} at {host}: {}", answer.text());
    }
    for method in ["GET", "HEAD"] {
        let looked = house.ask(method, "/api/v1/sessions").header("origin", "https://evil.example").send().await;
        assert_eq!((looked.status, looked.header("access-control-allow-origin")), (200, ""), "{method}");
    }
}

#[tokio::test]
async fn listed_origins_are_served_and_told_so() {
    let (house, upstream) = open(|settings| {
        settings.api_key = KEY.into();
        settings.cors_origins = listing(&[LISTED, "http://localhost:3000"]);
    });
    let preflight = house.ask("OPTIONS", "/v1/chat/completions").header("origin", LISTED);
    let preflight = preflight
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,x-stainless-os");
    let answer = preflight.send().await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, LISTED), "before any key is shown");
    assert!(answer.header("access-control-allow-methods").contains("POST"));
    assert_eq!(answer.header("access-control-allow-headers"), "authorization,content-type,x-stainless-os");
    assert_eq!(answer.header("access-control-allow-credentials"), "", "cookies mean nothing here");

    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]});
    let ask = house.post("/v1/chat/completions").header("origin", LISTED).header("x-api-key", KEY);
    let answer = ask.json(body.clone()).await;
    answer.expect(200);
    assert_eq!((answer.header("access-control-allow-origin"), answer.header("vary")), (LISTED, "origin"));
    assert_eq!(answer.header("access-control-expose-headers"), "*", "its page reads the session and the status");
    let refused = house.post("/v1/chat/completions").header("origin", LISTED).json(body.clone()).await;
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (401, LISTED),
        "its page reads the error"
    );
    let looked = house.get("/v1/models").header("origin", LISTED).header("x-api-key", KEY).send().await;
    assert_eq!((looked.status, looked.header("access-control-allow-origin")), (200, LISTED));

    let asked = upstream.seen().len();
    for other in
        ["http://chat.example", "https://chat.example:8443", "https://a.chat.example", "https://chat.example.evil"]
    {
        let preflight = house.ask("OPTIONS", "/chat").header("origin", other);
        let answer = preflight.header("access-control-request-method", "POST").send().await;
        assert_eq!((answer.code(), answer.header("access-control-allow-origin")), ("foreign_origin", ""), "{other}");
        let ask = house.post("/v1/chat/completions").header("origin", other).header("x-api-key", KEY);
        assert_eq!(ask.json(body.clone()).await.code(), "foreign_origin", "{other}");
    }
    assert_eq!(upstream.seen().len(), asked);
}
