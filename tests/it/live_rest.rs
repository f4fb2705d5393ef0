//! Sessions of visitors over `/api/v1`: looking, adding, changing, moving on, ending, counting.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::house::{House, field};
use crate::live::{patient, seen, visit};
use crate::openai::open;

async fn list(house: &House, path: &str, noun: &str) -> Vec<Value> {
    let page = house.get(path).send().await.expect(200);
    page[noun].as_array().expect("a list").clone()
}

/// A visitor's session is looked at as any other, and looking from aside does not keep it alive.
#[tokio::test]
async fn a_session_can_be_looked_at() {
    let (house, _) = open();
    visit(&house, "acme:ann@example.org", &["Hi"]).await.expect(200);
    visit(&house, "acme:ann@example.org", &["How are you?"]).await.expect(200);
    let path = "/api/v1/sessions/acme:ann@example.org";
    let turns = list(&house, &format!("{path}/turns?limit=1"), "turns").await;
    assert_eq!(field(&turns, "query_text"), ["Hi"]);
    assert_eq!(turns[0]["session_id"], "acme:ann@example.org");
    let messages = house.pages(&format!("{path}/messages?limit=3"), "messages").await;
    assert_eq!(field(&messages, "content"), ["Hi", "answer 1", "How are you?", "answer 2"]);
    let context = house.get(&format!("{path}/context?query=Why")).send().await.expect(200);
    assert_eq!((&context["messages_in_context"], &context["summaries"]), (&json!(4), &json!([])));
    house.clock.advance(SignedDuration::from_hours(23));
    seen(&house, "acme:ann@example.org").await;
    house.clock.advance(SignedDuration::from_hours(1));
    assert_eq!(house.get(path).send().await.refusal(), (404, "unknown_session"));
}

/// What took place elsewhere can be added, without a model.
#[tokio::test]
async fn turns_and_messages_can_be_added() {
    let (house, upstream) = open();
    let made = house.post("/api/v1/sessions").header("x-tenant-id", "acme");
    let made = made.json(json!({"id": "acme:v", "ttl": "2h", "metadata": {"channel": "kiosk"}})).await.expect(201);
    assert_eq!((&made["id"], &made["kind"], &made["ttl"]), (&json!("acme:v"), &json!("ephemeral"), &json!("2h")));
    let path = "/api/v1/sessions/acme:v";
    let turn = json!({"query": "My dog is Rex.", "response": "Noted."});
    house.post(&format!("{path}/turns")).json(turn).await.expect(201);
    let messages = json!([{"role": "user", "content": "He is four."}, {"role": "assistant", "content": "I see."}]);
    house.post(&format!("{path}/messages")).json(messages).await.expect(201);
    visit(&house, "acme:v", &["How old?"]).await.expect(200);
    assert_eq!(upstream.last_contents(), ["My dog is Rex.", "Noted.", "He is four.", "I see.", "How old?"]);
    let nobody = house.post("/api/v1/sessions/acme:w/turns").json(json!({"query": "a", "response": "b"})).await;
    assert_eq!(nobody.refusal(), (404, "unknown_session"));
}

/// A11: a session has a time to live of its own.
#[tokio::test]
async fn a_ttl_of_ones_own() {
    let (house, _) = open();
    let ends = house.ends();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "memory": {"ttl": "1h"}});
    house.post("/v1/acme:a/chat/completions").json(body).await.expect(200);
    visit(&house, "acme:b", &["Hi"]).await.expect(200);
    let patched =
        house.ask("PATCH", "/api/v1/sessions/acme:b").json(json!({"ttl": "30m", "metadata": {"vip": true}})).await;
    assert_eq!((&patched.expect(200)["ttl"], &patched.json()["metadata"]["vip"]), (&json!("30m"), &json!(true)));
    for (minutes, ended) in [(29, 0), (1, 1), (29, 1), (1, 2)] {
        house.clock.advance(SignedDuration::from_mins(minutes));
        house.memory.sweep_live().await.expect("a sweep");
        assert_eq!(ends.told().len(), ended, "after {minutes} more minutes");
    }
}

/// A5: an explicit end is told once; what is removed is told to nobody.
#[tokio::test]
async fn ended_and_removed() {
    let (house, _) = open();
    let ends = house.ends();
    visit(&house, "acme:a", &["Hi"]).await.expect(200);
    visit(&house, "acme:b", &["Hi"]).await.expect(200);
    let end = house.post("/api/v1/sessions/acme:a/end").json(json!({})).await.expect(200);
    assert_eq!((&end["id"], &end["reason"], &end["message_count"]), (&json!("acme:a"), &json!("explicit"), &json!(2)));
    assert_eq!(end["messages"][0]["content"], "Hi");
    let again = house.post("/api/v1/sessions/acme:a/end").json(json!({})).await;
    assert_eq!(again.refusal(), (404, "unknown_session"));
    let removed = house.ask("DELETE", "/api/v1/sessions/acme:b").send().await.expect(200);
    assert_eq!(removed, json!({"turns_deleted": 1}));
    assert_eq!(ends.told().len(), 1);
}

/// A11: a session goes on in another channel under another name, with the same beginning, and ends once.
#[tokio::test]
async fn a_session_moves_to_another_channel() {
    let (house, upstream) = open();
    let ends = house.ends();
    visit(&house, "acme:web_1", &["My dog is Rex."]).await.expect(200);
    let began = seen(&house, "acme:web_1").await["created_at"].clone();
    visit(&house, "acme:taken", &["Hi"]).await.expect(200);
    let transfer =
        |to: &str| house.post("/api/v1/sessions/acme:web_1/transfer").json(json!({"to": to, "channel": "phone"}));
    assert_eq!(transfer("taken").await.refusal(), (409, "session_exists"));
    assert_eq!(transfer("globex:x").await.refusal(), (400, "invalid_session_id"));
    assert_eq!(transfer("a b").await.refusal(), (400, "invalid_session_id"));
    let moved = transfer("+15551234567").await.expect(200);
    assert_eq!((&moved["id"], &moved["created_at"]), (&json!("acme:+15551234567"), &began));
    visit(&house, "acme:+15551234567", &["Who?"]).await.expect(200);
    assert_eq!(upstream.last_contents(), ["My dog is Rex.", "answer 1", "Who?"]);
    visit(&house, "acme:web_1", &["Who?"]).await.expect(200);
    assert_eq!(upstream.last_contents(), ["Who?"], "the old name begins anew");
    assert_eq!(ends.told().len(), 0, "it goes on");
    house.post("/api/v1/sessions/acme:+15551234567/end").json(json!({})).await.expect(200);
    assert_eq!(ends.told().len(), 1);
}

/// A11: counts by channel, and no word or name among them.
#[tokio::test]
async fn analytics_count_by_channel() {
    let (house, _) = open();
    for key in ["acme:+15551234567", "acme:ann@example.org", "acme:web_1"] {
        visit(&house, key, &["What is Wumpus?"]).await.expect(200);
    }
    house.clock.advance(SignedDuration::from_secs(100));
    visit(&house, "acme:web_1", &["And now?"]).await.expect(200);
    house.post("/api/v1/sessions/acme:web_1/end").json(json!({})).await.expect(200);
    let counted = house.get("/api/v1/analytics").header("x-tenant-id", "acme").send().await;
    assert!(!counted.text().contains("Wumpus") && !counted.text().contains("ann@"), "{}", counted.text());
    let counted = counted.expect(200);
    assert_eq!((&counted["live"], &counted["tenant_id"]), (&json!(2), &json!("acme")));
    let web = &counted["channels"]["web"];
    assert_eq!((&web["started"], &web["ended"], &web["messages"]), (&json!(1), &json!({"explicit": 1}), &json!(4)));
    assert_eq!((web["seconds_max"].as_u64(), &web["intents"]["question"]), (Some(100), &json!(1)), "{web}");
    assert_eq!(
        (&counted["channels"]["phone"]["started"], &counted["channels"]["email"]["started"]),
        (&json!(1), &json!(1))
    );
}

/// A11: what visitors ask about is told by the titles of what the tenant knows.
#[tokio::test]
async fn analytics_tell_what_was_asked_about() {
    let (house, _) = patient();
    let note = json!({"title": "Opening hours", "text": "Our business hours: we are open from nine to five."});
    house.post("/api/v1/knowledge").header("x-tenant-id", "acme").json(note).await.expect(201);
    visit(&house, "acme:web_1", &["What are your business hours?"]).await.expect(200);
    visit(&house, "acme:web_2", &["What are your business hours on Sundays?"]).await.expect(200);
    visit(&house, "acme:web_2", &["My dog is called Rex."]).await.expect(200);
    let counted = house.get("/api/v1/analytics").header("x-tenant-id", "acme").send().await.expect(200);
    assert_eq!(counted["channels"]["web"]["topics"], json!({"Opening hours": 2}));
}

/// Visitors' sessions are listed for who may see all of them.
#[tokio::test]
async fn sessions_are_listed() {
    let (house, _) = open();
    for n in 0..25 {
        visit(&house, &format!("acme:v{n}"), &["Hi"]).await.expect(200);
    }
    visit(&house, "globex:v", &["Hi"]).await.expect(200);
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/api/v1/sessions?kind=ephemeral&limit=10&after={after}");
        let page = house.get(&path).header("x-tenant-id", "acme").send().await.expect(200);
        names.extend(page["sessions"].as_array().expect("a list").iter().map(|session| session["id"].clone()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(names, (0..25).map(|n| json!(format!("acme:v{n}"))).collect::<Vec<_>>());
    let wrong = house.get("/api/v1/sessions?kind=brief").send().await;
    assert_eq!(wrong.refusal(), (400, "invalid_kind"));
}

/// The tenant in the path counts, and a name that is none is refused.
#[tokio::test]
async fn the_path_names_the_tenant() {
    let (house, _) = open();
    visit(&house, "acme:v", &["Hi"]).await.expect(200);
    assert_eq!(seen(&house, "acme%3Av").await["tenant_id"], "acme");
    let other = house.get("/api/v1/sessions/acme:v").header("x-tenant-id", "globex").send().await;
    assert_eq!(other.refusal(), (400, "invalid_id"));
    for (path, code) in
        [("acme:a b", "invalid_session_id"), ("acme:", "invalid_session_id"), ("x", "invalid_session_id")]
    {
        let refused = house.get(&format!("/api/v1/sessions/{}", path.replace(' ', "%20"))).send().await;
        assert_eq!(refused.refusal(), (400, code), "{path}");
    }
    let durable = house.post(&format!("/api/v1/sessions/{}/end", crate::house::SESSION)).json(json!({})).await;
    assert_eq!(durable.refusal(), (404, "unknown_session"));
}

/// Why the model was reminded is kept with the newest turns, in the session.
#[tokio::test]
async fn a_trace_lives_in_the_session() {
    let (house, _) = open();
    for n in 0..20 {
        visit(&house, "acme:v", &[&format!("My order {n} went to Porto.")]).await.expect(200);
        house.memory.live_told().await;
    }
    let turn = visit(&house, "acme:v", &["Where?"]).await.header("x-recalld-turn").to_owned();
    let path = format!("/api/v1/turns/{turn}/context");
    let trace = house.get(&format!("{path}?session=acme:v")).header("x-tenant-id", "acme").send().await.expect(200);
    assert_eq!((&trace["question"], &trace["asides"][0]["layer"]), (&json!("Where?"), &json!("summary")), "{trace}");
    assert_eq!(house.get(&path).header("x-tenant-id", "acme").user("ann").send().await.status, 404);
}

/// A11: a session begins with what its template says; what it says itself counts.
#[tokio::test]
async fn a_session_begins_with_a_template() {
    let (house, upstream) = open();
    let template = json!({"ttl": "2h", "system": "You sell tea.", "metadata": {"channel": "shop"}});
    let settings = json!({"session_templates": {"tea": template}});
    house.post("/api/v1/tenants").json(json!({"name": "acme", "settings": settings})).await.expect(201);
    let ask = |memory: Value, messages: Value| {
        let body = json!({"model": "m", "messages": messages, "memory": memory});
        house.post("/v1/acme:v/chat/completions").json(body)
    };
    let question = json!([{"role": "user", "content": "Hi"}]);
    ask(json!({"template": "tea"}), question).await.expect(200);
    assert_eq!(upstream.last_contents(), ["You sell tea.", "Hi"]);
    let begun = seen(&house, "acme:v").await;
    let noted = (&begun["metadata"]["channel"], &begun["metadata"]["template"]);
    assert_eq!((&begun["ttl"], noted), (&json!("2h"), (&json!("shop"), &json!("tea"))), "{begun}");
    ask(json!({}), json!([{"role": "user", "content": "More?"}])).await.expect(200);
    assert_eq!(upstream.last_contents(), ["You sell tea.", "Hi", "answer 1", "More?"], "it is told in every turn");
    let own = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]);
    ask(json!({}), own).await.expect(200);
    assert_eq!(upstream.last_contents()[0], "Be brief.", "a client that tells the model something is left alone");
    let wrong = json!({"settings": {"session_templates": {"tea": {"tll": "2h"}}}});
    let wrong = house.ask("PATCH", "/api/v1/tenants/acme").json(wrong).await;
    assert_eq!(wrong.refusal(), (400, "invalid_settings"));
}

/// P6: an erased tenant's visitors are gone, and nobody is told.
#[tokio::test]
async fn an_erased_tenant_has_no_visitors() {
    let (house, _) = open();
    let ends = house.ends();
    house.post("/api/v1/tenants").json(json!({"name": "acme"})).await.expect(201);
    visit(&house, "acme:v", &["Hi"]).await.expect(200);
    visit(&house, "globex:v", &["Hi"]).await.expect(200);
    house.ask("DELETE", "/api/v1/tenants/acme?everything=true").send().await.expect(200);
    assert_eq!(house.get("/api/v1/sessions/acme:v").send().await.refusal(), (404, "unknown_session"));
    seen(&house, "globex:v").await;
    assert!(ends.told().is_empty());
}
