//! Responses that passed without memory say so.

use recalld::model::ModelError;
use serde_json::{Value, json};

use crate::house::{House, SESSION};
use crate::openai::{CHAT, body, open, talk};
use crate::upstream::Reply;

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
