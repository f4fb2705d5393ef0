//! Responses that passed without memory say so.

use std::process::Stdio;
use std::sync::Arc;

use recalld::config::Secret;
use recalld::model::ModelError;
use serde_json::{Value, json};

use crate::house::{Answer, House, SESSION, keys};
use crate::openai::{CHAT, body, open, talk};
use crate::process::{Server, recalld};
use crate::upstream::{Reply, recording};

const STATUS: &str = "x-recalld-status";

fn chat() -> Value {
    body(talk(&["hello"]))
}

#[tokio::test]
async fn every_response_but_models_says_what_memory_did() {
    let (house, upstream) = open();
    for (mode, status) in [("active", "ok"), ("passive", "ok"), ("read", "read"), ("off", "off")] {
        let answer = house.post(CHAT).session(SESSION).header("x-recalld-mode", mode).json(chat()).await;
        assert_eq!((answer.status, answer.header(STATUS)), (200, status), "{mode}");
    }
    for path in ["completions", "embeddings", "moderations", "images/generations", "audio/speech", "acme/completions"] {
        let answer = house.post(&format!("/v1/{path}")).json(json!({"model": "m"})).await;
        assert_eq!((answer.status, answer.header(STATUS)), (200, "off"), "{path}");
    }
    for (method, path) in [("POST", "responses"), ("GET", "nothing"), ("DELETE", "embeddings"), ("POST", "acme/x")] {
        let answer = house.ask(method, &format!("/v1/{path}")).json(json!({})).await;
        assert_eq!((answer.status, answer.header(STATUS)), (404, "off"), "{path}");
    }
    let broken = house.post(CHAT).json(json!({"messages": 7})).await;
    assert_eq!((broken.status / 100, broken.header(STATUS)), (4, "off"));
    // A question that is stored although its answer never came is remembered.
    upstream.then(Reply::Refuses(429, json!({"error": {"message": "slow down", "type": "x"}})));
    let refused = house.post(CHAT).session(SESSION).json(chat()).await;
    assert_eq!((refused.status, refused.header(STATUS)), (429, "ok"));
    upstream.then(Reply::Fails(ModelError::BrokeOff("reset".into())));
    let failed = house.post(CHAT).session(SESSION).json(chat()).await;
    assert_eq!((failed.status, failed.header(STATUS)), (502, "ok"));
    assert_eq!(house.turns(SESSION).await.last().expect("a turn")["status"], "failed");
    let models = house.get("/v1/models").send().await;
    assert_eq!((models.status, models.header(STATUS)), (200, ""));
    assert_eq!(house.get("/v1/acme/models").send().await.header(STATUS), "");

    let keyed = House::plan().setting(|settings| settings.api_key = "rk_0123456789abcdef".into()).open();
    assert_eq!(keyed.post(CHAT).json(chat()).await.header(STATUS), "off", "401");
}

#[tokio::test]
async fn generating_requests_without_memory_are_counted() {
    let upstream = recording();
    let all = |settings: &mut recalld::config::Settings| settings.passthrough = recalld::config::Passthrough::All;
    let house = House::plan().upstream(Arc::clone(&upstream) as _).setting(all).open();
    for path in ["completions", "responses", "images/generations", "audio/speech", "acme/completions"] {
        house.post(&format!("/v1/{path}")).json(json!({"model": "m"})).await.expect(200);
    }
    // These make no answer that somebody could want to be remembered.
    for path in ["embeddings", "moderations", "audio/transcriptions", "files"] {
        house.post(&format!("/v1/{path}")).json(json!({"model": "m"})).await.expect(200);
    }
    house.post(CHAT).json(chat()).await.expect(200);
    house.post(CHAT).header("x-recalld-mode", "off").json(chat()).await.expect(200);
    house.post(CHAT).header("x-recalld-task", "title_generation").json(chat()).await.expect(200);
    let stats = house.get("/api/v1/stats").send().await.expect(200);
    assert_eq!((&stats["generated_without_memory"], &stats["chats_without_memory"]), (&json!(5), &json!(1)));
    assert_eq!(house.metric("recalld_generated_without_memory_total").await, 5);
}

// --- What doctor says of a server ------------------------------------------------------------------

fn doctor(folder: &std::path::Path, arguments: &[&str]) -> Vec<(String, String)> {
    let arguments = [&["doctor", "--json"], arguments].concat();
    let done = recalld(folder, &arguments, &[]).stdout(Stdio::piped()).output().expect("it runs");
    let checks: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let text = |check: &Value, name: &str| check[name].as_str().expect("text").to_owned();
    let checks = checks.as_array().expect("a list").iter();
    checks.map(|check| (text(check, "check"), text(check, "detail"))).collect()
}

#[test]
fn doctor_tells_what_passed_without_memory_and_of_the_server_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &[("RECALLD_UPSTREAM", "builtin")]);
    let json = [("content-type", "application/json")];
    let url = format!("http://{}", server.address);
    let quiet = doctor(folder.path(), &["--server", &url]);
    assert!(!quiet.iter().any(|(check, _)| check == "passed"), "nothing passed yet: {quiet:?}");
    // The built-in answers no completions; the request was one all the same.
    for path in ["/v1/completions", "/v1/completions", "/v1/images/generations"] {
        server.send("POST", path, &json, "{}");
    }
    let told = doctor(folder.path(), &["--server", &url]);
    let passed = told.iter().find(|(check, _)| check == "passed");
    let (_, detail) = passed.unwrap_or_else(|| panic!("{told:?}"));
    assert!(detail.contains('3') && detail.contains("chat/completions"), "{detail}");
    let ours = ["data", "disk", "schema", "integrity", "settings", "model", "embedder", "key", "users", "clock"];
    assert!(!told.iter().any(|(check, _)| ours.contains(&check.as_str())), "of this machine: {told:?}");
    assert!(told.iter().any(|(check, _)| check == "server"), "{told:?}");
    let here = doctor(folder.path(), &["--data", "r.db"]);
    assert!(here.iter().any(|(check, _)| check == "disk"), "without --server this machine is looked at: {here:?}");
}

// --- Errors that say what would help ---------------------------------------------------------------

/// The message of an error in OpenAI's shape, which its clients print.
#[track_caller]
fn message(answer: &Answer, status: u16) -> String {
    let body = answer.expect(status);
    assert_eq!(keys(&body["error"]), ["message", "type", "param", "code"], "{body}");
    body["error"]["message"].as_str().expect("text").to_owned()
}

#[tokio::test]
async fn the_404_of_responses_names_the_switch_to_chat_completions() {
    let (house, _) = open();
    for path in ["/v1/responses", "/v1/acme/responses", "/v1/responses/resp_1", "/v1/acme:visit/responses"] {
        let message = message(&house.post(path).json(json!({"model": "m", "input": "hello"})).await, 404);
        for part in [
            "chat completions",
            "chat.completions.create",
            "set_default_openai_api(\"chat_completions\")",
            "use_responses_api=False",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }
    let other = message(&house.post("/v1/files").json(json!({})).await, 404);
    assert!(!other.contains("use_responses_api"), "{other}");
}

#[tokio::test]
async fn a_base_url_without_v1_is_told_so_in_the_shape_that_clients_print() {
    let (house, upstream) = open();
    for (method, path) in [
        ("POST", "/chat/completions"),
        ("POST", "/completions"),
        ("POST", "/embeddings"),
        ("POST", "/responses"),
        ("GET", "/models"),
        ("GET", "/models/gpt-4o"),
        ("POST", "/images/generations"),
        ("POST", "/api/chat/completions"),
        ("POST", "/api/v1/chat/completions"),
        ("POST", "/openai/v1/chat/completions"),
        ("POST", "/acme/chat/completions"),
    ] {
        let answer = house.ask(method, path).json(chat()).await;
        let message = message(&answer, 404);
        assert!(message.contains("base URL") && message.contains("/v1"), "{path}: {message}");
        assert_eq!(answer.code(), "base_url_without_v1", "{path}");
    }
    assert!(upstream.seen().is_empty());
    assert_eq!(house.get("/nothing").send().await.refusal(), (404, "unknown_route"));
    let keyed = House::plan().setting(|settings| settings.api_key = "rk_0123456789abcdef".into()).open();
    message(&keyed.post("/chat/completions").json(chat()).await, 401);
}

#[tokio::test]
async fn errors_where_users_are_signed_say_what_would_help() {
    let house = House::plan().setting(|settings| {
        settings.unidentified = recalld::config::Unidentified::Session;
        settings.openwebui_jwt_secret = Secret::new("a secret that both of us know");
    });
    let house = house.open();
    let unnamed = house.get("/api/v1/sessions").user("ann").send().await;
    let detail = unnamed.json()["detail"].as_str().expect("text").to_owned();
    assert_eq!(unnamed.refusal(), (400, "no_user"));
    assert!(detail.contains("X-OpenWebUI-User-Jwt") && !detail.contains("name a user with X-User-ID"), "{detail}");
    assert!(
        detail.contains("FORWARD_USER_INFO_HEADER_JWT_SECRET") && detail.contains("ENABLE_FORWARD_USER_INFO_HEADERS"),
        "{detail}"
    );
    // Signed with another secret, expired, and no token at all.
    let expired = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
         eyJzdWIiOiI0NjI1MTZjYy0zOGUwLTRiNjMtOGVmNi02ZDRmNWUwYzRjMjciLCJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSIsIm5hbWUiOiJBZGEiLCJyb2xlIjoiYWRtaW4iLCJpc3MiOiJvcGVuLXdlYnVpIiwiaWF0Ijo5MDAsImV4cCI6MTIwMH0.\
         EHE8XaXKmHKRg5SdETXraE7m0JXGN1V5Nt0DaXZOAjA";
    let other = format!("{}AAAA", &expired[..expired.len() - 4]);
    for (token, part) in [
        (other.as_str(), "FORWARD_USER_INFO_HEADER_JWT_SECRET"),
        (expired, "same time"),
        ("ann", "FORWARD_USER_INFO_HEADER_JWT_SECRET"),
    ] {
        let answer = house.post(CHAT).header("x-openwebui-user-jwt", token).json(chat()).await;
        let message = message(&answer, 401);
        assert!(message.contains(part), "{part} in {message}");
    }
    // A path names somebody, and no token says who asks.
    let path = house.ask("DELETE", "/api/v1/users/ann").user("ann").send().await;
    assert!(path.text().contains("X-OpenWebUI-User-Jwt"), "{}", path.text());
}
