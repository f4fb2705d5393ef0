//! Who may come in.

use std::time::Duration;

use axum::body::Body;
use serde_json::json;

use crate::house::{Ask, House};

const KEY: &str = "rk_0123456789abcdef";

fn keyed() -> House {
    House::plan().setting(|settings| settings.api_key = KEY.into()).open()
}

async fn chat(ask: Ask<'_>) -> (u16, String) {
    let answer = ask.json(json!({"query": "hello", "user_id": "ann"})).await;
    (answer.status, answer.code().to_owned())
}

/// Section 9: no key or a wrong one is 401; both ways to show it work.
#[tokio::test]
async fn a_key_opens_the_doors() {
    let house = keyed();
    let refused = (401, "unauthorized".to_owned());
    assert_eq!(chat(house.post("/chat")).await, refused);
    assert_eq!(house.get("/metrics").send().await.header("www-authenticate"), "Bearer");
    for wrong in ["", "rk_0123456789abcdeF", "rk_0123456789abcde", "rk_0123456789abcdef0"] {
        assert_eq!(chat(house.post("/chat").header("x-api-key", wrong)).await, refused, "{wrong}");
        assert_eq!(chat(house.post("/chat").header("authorization", &format!("Bearer {wrong}"))).await, refused);
    }
    assert_eq!(chat(house.post("/chat").header("authorization", KEY)).await, refused);
    assert_eq!(chat(house.post("/chat").header("authorization", &format!("Basic {KEY}"))).await, refused);
    for scheme in ["Bearer", "bearer", "BEARER"] {
        assert_eq!(chat(house.post("/chat").header("authorization", &format!("{scheme} {KEY}"))).await.0, 200);
    }
    assert_eq!(chat(house.post("/chat").header("x-api-key", KEY)).await.0, 200);
    let anywhere = house.post("/chat").header("x-api-key", KEY).header("host", "memory.example.org");
    assert_eq!(chat(anywhere).await.0, 200, "with a key the name does not matter");
}

/// Section 9: what tells nothing about anybody is open, the rest is not, known or unknown.
#[tokio::test]
async fn only_harmless_routes_are_open() {
    let house = keyed();
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(house.get(path).send().await.status, 200, "{path}");
    }
    for path in ["/metrics", "/api/v1/sessions", "/api/v1/stats", "/nothing", "/healthz/", "//healthz"] {
        assert_eq!(house.get(path).send().await.refusal(), (401, "unauthorized"), "{path}");
    }
    assert_eq!(house.post("/api/v1/cleanup").send().await.refusal(), (401, "unauthorized"));
}

/// Section 9: without a key another name than ours is refused, so that no web page can reach us under its own.
#[tokio::test]
async fn without_a_key_the_host_must_be_ours() {
    let house = House::open();
    for host in ["localhost:7077", "127.0.0.1", "[::1]:7077", "app.localhost"] {
        assert_eq!(chat(house.post("/chat").header("host", host)).await.0, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1:7077", "", "@"] {
        assert_eq!(chat(house.post("/chat").header("host", host)).await, (403, "wrong_host".into()), "{host}");
        assert_eq!(house.get("/healthz").header("host", host).send().await.status, 403, "{host}");
    }
}

fn endless() -> Body {
    Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>())
}

/// Strangers are turned away before their body is read.
#[tokio::test]
async fn the_key_is_checked_before_the_body_is_read() {
    let at_once = Duration::from_secs(2);
    let house = keyed();
    let asked = house.post("/chat").header("content-type", "application/json").body(endless());
    let answer = tokio::time::timeout(at_once, asked).await.expect("answered at once");
    assert_eq!(answer.refusal(), (401, "unauthorized"));

    let house = House::open();
    let asked = house.post("/chat").header("host", "evil.example").body(endless());
    let answer = tokio::time::timeout(at_once, asked).await.expect("answered at once");
    assert_eq!(answer.refusal(), (403, "wrong_host"));
}
