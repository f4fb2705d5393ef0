//! Responses that passed without memory say so.

use std::process::Stdio;
use std::sync::Arc;

use recalld::model::ModelError;
use serde_json::{Value, json};

use crate::house::{House, SESSION};
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
    assert_eq!((failed.status, failed.header(STATUS).is_empty()), (502, false));
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
