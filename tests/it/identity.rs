//! Who is who, at every door.

use jiff::SignedDuration;
use recalld::config::Secret;
use serde_json::json;

use crate::house::{House, SESSION};

/// Ann until five past twelve, signed with `hush`.
const ANN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                   eyJzdWIiOiJhbm4iLCJleHAiOjE3NjcyNjkxMDB9.\
                   9FadOOOd8pLwfVw7nBCg-sLF96px6TAdfkhwT2Yz6mA";
const TOKEN: &str = "x-openwebui-user-jwt";

fn signing() -> House {
    House::plan().setting(|settings| settings.openwebui_jwt_secret = Secret::new("hush")).open()
}

#[tokio::test(flavor = "multi_thread")]
async fn once_there_is_a_secret_only_a_token_names_a_user() {
    let house = signing();
    let said = house.post("/chat").session(SESSION).user("bob").header(TOKEN, ANN).json(json!({ "query": "Hi" }));
    said.await.expect(200);
    let turns = format!("/api/v1/sessions/{SESSION}/turns");
    house.get(&turns).header(TOKEN, ANN).send().await.expect(200);
    for unsigned in [house.get(&turns).user("ann"), house.get(&format!("{turns}?user_id=ann")), house.get(&turns)] {
        assert_eq!(unsigned.send().await.refusal(), (404, "unknown_session"), "nobody else sees it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_token_is_shown_the_door() {
    let house = signing();
    let forged = ANN.replace("eyJzdWIi", "eyJzdXIi");
    for token in ["ann", &forged] {
        let refused = house.get("/api/v1/sessions").header(TOKEN, token).send().await;
        assert_eq!(refused.refusal(), (401, "invalid_user_token"));
    }
    house.get("/api/v1/sessions").header(TOKEN, ANN).send().await.expect(200);
    house.clock.advance(SignedDuration::from_secs(361));
    let late = house.get("/api/v1/sessions").header(TOKEN, ANN).send().await;
    assert_eq!(late.refusal(), (401, "invalid_user_token"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_headers_that_name_a_user_are_a_setting() {
    let names = serde_json::from_value(json!(["X-Who"])).expect("names of headers");
    let house = House::plan().setting(|settings| settings.user_headers = names).open();
    house.post("/chat").session(SESSION).header("x-who", "ann").json(json!({ "query": "Hi" })).await.expect(200);
    let turns = format!("/api/v1/sessions/{SESSION}/turns");
    house.get(&turns).header("x-who", "ann").send().await.expect(200);
    assert_eq!(house.get(&turns).user("ann").send().await.status, 404);
}
