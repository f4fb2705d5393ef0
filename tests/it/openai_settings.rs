//! Settings of the door under `/v1`: the usual mode, aliases, what else is passed on.

use std::sync::Arc;

use recalld::config::{Aliases, Passthrough};
use recalld::mode::Mode;
use serde_json::json;

use crate::house::{House, SESSION};
use crate::openai::{CHAT, body, sessions, talk};
use crate::upstream::recording;

/// DESIGN 3, modes: a setting for requests that do not say.
#[tokio::test]
async fn the_usual_mode_is_a_setting() {
    let house = House::plan().setting(|settings| settings.mode = Mode::Off).open();
    let off = house.post(CHAT).session(SESSION).json(body(talk(&["hello"]))).await;
    assert_eq!((off.expect(200)["object"].as_str(), off.header("x-recalld-status")), (Some("chat.completion"), "off"));
    assert_eq!(sessions(&house).await.len(), 0);
    house.post(CHAT).session(SESSION).header("x-recalld-mode", "active").json(body(talk(&["hello"]))).await.expect(200);
    assert_eq!(sessions(&house).await.len(), 1);
}

/// An alias is listed, and stands for its model whether the request is remembered or not.
#[tokio::test]
async fn an_alias_stands_for_its_model() {
    let upstream = recording();
    let aliases = Aliases::try_from(vec!["fast=m-small".to_owned()]).expect("an alias");
    let plan = House::plan().upstream(Arc::clone(&upstream) as _).setting(|settings| settings.model_aliases = aliases);
    let house = plan.open();
    for mode in ["active", "off"] {
        let asked = json!({"model": "fast", "messages": talk(&["hello"])});
        house.post(CHAT).session(SESSION).header("x-recalld-mode", mode).json(asked).await.expect(200);
        assert_eq!(upstream.last()["model"], "m-small", "{mode}");
    }
}

/// DESIGN 4: what is not listed is passed on only when that is set.
#[tokio::test]
async fn everything_is_passed_on_when_that_is_set() {
    let upstream = recording();
    let plan = House::plan().upstream(Arc::clone(&upstream) as _);
    let house = plan.setting(|settings| settings.passthrough = Passthrough::All).open();
    house.post("/v1/batches").json(json!({"x": 1})).await;
    assert_eq!(upstream.seen().last().map(|passed| passed.path.clone()), Some("batches".to_owned()));
}
