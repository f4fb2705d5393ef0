//! The end of a session: whoever is to know is told, however the receiver behaves, by one id; or somebody sees that it is not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use recalld::courier::HttpCourier;
use recalld::lifecycle::Delivered;
use recalld::memory::EndHooks;
use recalld::message::Role;
use recalld::scope::Tenant;
use recalld::session::{EndReason, EndedMessage, EndedSummary, SessionEnd};
use recalld::webhook::SigningSecret;
use recalld::worker::Worker;
use serde_json::{Value, json};

use crate::house::{House, SESSION, eventually};
use crate::process::Server;
use crate::receiver::{Mood, Receiver};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OWN_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A house that tells ends here, with little patience.
fn telling(url: &str) -> House {
    telling_with(url, None)
}

fn telling_with(url: &str, hook: Option<Arc<dyn recalld::session::SessionEndHook>>) -> House {
    let courier = HttpCourier::with_patience(Duration::from_millis(300));
    let plan = House::plan().ending(EndHooks { hook, courier: Some(Arc::new(courier)) });
    let set = |settings: &mut recalld::config::Settings| {
        settings.session_end_webhook = url.into();
        settings.session_end_secret = SECRET.into();
        settings.webhook_private_addresses = url.starts_with("http://");
    };
    plan.setting(set).open()
}

async fn end(house: &House) -> Value {
    house.post(&format!("/api/v1/sessions/{SESSION}/end")).send().await.expect(200)
}

/// Says something and ends the session.
async fn talked(house: &House) {
    house.chat(SESSION, "My dog is called Rex.").await;
    end(house).await;
}

async fn listed(house: &House) -> Value {
    house.get("/api/v1/webhooks").send().await.expect(200)
}

async fn deliver(house: &House) -> Vec<Delivered> {
    house.memory.deliver_once().await.expect("a store that answers")
}

/// Issue 8: a receiver that fails, hangs, redirects, babbles and closes has it in the end, by one id and with the same body.
#[tokio::test]
async fn a_receiver_that_misbehaves_has_it_in_the_end() {
    let moods = [Mood::Fails(500), Mood::Hangs, Mood::Redirects, Mood::Closes, Mood::Babbles, Mood::Fails(429)];
    let receiver = Receiver::start(&moods).await;
    let house = telling(&receiver.url());
    talked(&house).await;
    for mood in moods {
        assert_eq!(deliver(&house).await, [Delivered::Later], "{mood:?}");
        assert_eq!(deliver(&house).await, [], "{mood:?}: it waits for its next try");
        house.clock.advance(SignedDuration::from_hours(30));
    }
    let waiting = listed(&house).await;
    assert_eq!((&waiting["counts"]["failing"], &waiting["webhooks"][0]["attempts"]), (&json!(1), &json!(6)));
    assert_eq!(waiting["webhooks"][0].get("content"), None);
    assert_eq!(deliver(&house).await, [Delivered::Yes]);

    let received = receiver.received();
    assert_eq!(received.len(), moods.len() + 1);
    let secret = SigningSecret::parse(SECRET).expect("a secret");
    for request in &received {
        let (id, at) = (request.header("webhook-id"), request.header("webhook-timestamp"));
        assert_eq!(
            (request.path.as_str(), id, &request.body),
            ("/hooks", received[0].header("webhook-id"), &received[0].body)
        );
        let signed = secret.sign(id, at.parse().expect("seconds"), request.body.as_bytes());
        assert_eq!(request.header("webhook-signature"), signed);
        assert_eq!(request.header("host"), format!("127.0.0.1:{}", receiver.port));
    }
    let times: Vec<i64> =
        received.iter().filter_map(|request| request.header("webhook-timestamp").parse().ok()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "each try has its own time: {times:?}");
    assert_eq!(
        listed(&house).await,
        json!({"webhooks": [], "next": null, "counts": {"queued": 0, "failing": 0, "dead": 0}})
    );
    assert_eq!(house.metric("recalld_webhooks_delivered_total").await, 1);
    assert_eq!(house.metric("recalld_webhooks_failed_total").await, 6);
    assert_left_nothing(&house, &received[0].body).await;
}

/// What was delivered is gone from the file and its log, byte for byte.
async fn assert_left_nothing(house: &House, body: &str) {
    let needle =
        body.split("\"messages\"").nth(1).expect("messages").get(..60).expect("a few bytes").as_bytes().to_owned();
    let data = house.data();
    let files = [data.clone(), data.with_extension("db-wal")];
    eventually("the bytes are gone", async || {
        let holds = |path: &std::path::PathBuf| {
            std::fs::read(path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
        };
        (!files.iter().any(holds)).then_some(())
    })
    .await;
}

/// A5: what is told of a session.
#[tokio::test]
async fn the_payload_tells_what_was_said() {
    let receiver = Receiver::start(&[]).await;
    let house = telling(&receiver.url());
    talked(&house).await;
    assert_eq!(deliver(&house).await, [Delivered::Yes]);
    let received = receiver.received().remove(0);
    assert_eq!(received.header("content-type"), "application/json");
    assert!(received.header("webhook-id").starts_with("msg_"));
    let told: Value = serde_json::from_str(&received.body).expect("JSON");
    assert_eq!(told["type"], "session.ended");
    let data = &told["data"];
    assert_eq!(
        (&data["tenant_id"], &data["user_id"], &data["session_id"]),
        (&json!("default"), &json!("anonymous"), &json!(SESSION))
    );
    assert_eq!((&data["reason"], &data["message_count"]), (&json!("explicit"), &json!(2)));
    assert_eq!(
        (&data["messages"][0]["role"], &data["messages"][0]["content"]),
        (&json!("user"), &json!("My dog is called Rex."))
    );
    assert_eq!(data["messages"][1]["role"], "assistant");
    for time in [&told["timestamp"], &data["created_at"], &data["last_accessed"], &data["messages"][0]["created_at"]] {
        assert!(time.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()), "{time}");
    }
}

/// A session that was ended says so and goes on; ending it again with nothing new said is the same event.
#[tokio::test]
async fn an_ended_session_goes_on() {
    let receiver = Receiver::start(&[]).await;
    let house = telling(&receiver.url());
    house.chat(SESSION, "Hello").await;
    let shown = house.get(&format!("/api/v1/sessions/{SESSION}")).send().await.expect(200);
    assert_eq!(shown["ended_at"], Value::Null);
    for _ in 0..2 {
        assert!(end(&house).await["ended_at"].is_string());
        assert_eq!(deliver(&house).await, [Delivered::Yes]);
    }
    house.chat(SESSION, "One more thing").await;
    end(&house).await;
    deliver(&house).await;
    let ids: Vec<String> = receiver.received().iter().map(|request| request.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids[0] == ids[1] && ids[1] != ids[2], "{ids:?}");
    let unknown = house.post("/api/v1/sessions/11111111-2222-4333-8444-555555555555/end").send().await;
    assert_eq!(unknown.refusal(), (404, "unknown_session"));
}

/// After ten tries it is given up: seen, counted, tried again by hand, or dropped.
#[tokio::test]
async fn what_cannot_be_delivered_is_seen() {
    let receiver = Receiver::start(&[Mood::Fails(503); 10]).await;
    let house = telling(&receiver.url());
    talked(&house).await;
    let mut ends = Vec::new();
    for _ in 0..10 {
        ends.extend(deliver(&house).await);
        house.clock.advance(SignedDuration::from_hours(30));
    }
    assert_eq!((&ends[..9], &ends[9..]), (&[Delivered::Later; 9][..], &[Delivered::GivenUp][..]));
    assert_eq!(deliver(&house).await, []);
    let list = listed(&house).await;
    let dead = &list["webhooks"][0];
    assert_eq!(
        (&dead["state"], &dead["attempts"], &dead["last_error"]),
        (&json!("dead"), &json!(10), &json!("it answered with 503"))
    );
    assert_eq!((&list["counts"]["dead"], dead.get("content")), (&json!(1), None));
    assert_eq!(house.metric("recalld_webhooks_waiting_for_help").await, 1);
    assert_eq!(house.metric("recalld_webhooks_dead_total").await, 1);
    let stats = house.get("/api/v1/stats").send().await.expect(200);
    assert_eq!((&stats["webhooks_dead"], &stats["webhooks_last_error"]), (&json!(1), &json!("it answered with 503")));

    let id = dead["id"].as_str().expect("an id");
    let shown = house.get(&format!("/api/v1/webhooks/{id}")).send().await.expect(200);
    assert_eq!(shown["content"]["data"]["messages"][0]["content"], "My dog is called Rex.");
    let retried = house.post(&format!("/api/v1/webhooks/retry?id={id}")).send().await.expect(200);
    assert_eq!(retried, json!({"webhooks_retried": 1}));
    assert_eq!(deliver(&house).await, [Delivered::Yes]);
    assert!(receiver.received().iter().all(|request| request.header("webhook-id") == id));
    assert_eq!(house.get(&format!("/api/v1/webhooks/{id}")).send().await.refusal(), (404, "unknown_webhook"));

    end(&house).await;
    let dropped = house.ask("DELETE", &format!("/api/v1/webhooks/{id}")).send().await.expect(200);
    assert_eq!(dropped, json!({"webhooks_dropped": 1}));
    assert_eq!((deliver(&house).await, receiver.received().len()), (vec![], 11));
}

/// A receiver that is gone for good (410), or asks for patience, is taken at its word.
#[tokio::test]
async fn a_receiver_is_taken_at_its_word() {
    let receiver = Receiver::start(&[Mood::Fails(410)]).await;
    let house = telling(&receiver.url());
    talked(&house).await;
    assert_eq!(deliver(&house).await, [Delivered::GivenUp]);
}

/// A name that leads to an address of this network is refused before anybody is called, and that is seen at once.
#[tokio::test]
async fn private_addresses_are_refused() {
    let receiver = Receiver::start(&[]).await;
    let house = telling(&format!("https://localhost:{}/hooks", receiver.port));
    talked(&house).await;
    assert_eq!(deliver(&house).await, [Delivered::GivenUp]);
    let why = listed(&house).await["webhooks"][0]["last_error"].clone();
    assert!(
        why.as_str().is_some_and(|why| why.contains("`localhost` is ") && why.contains("a private address")),
        "{why}"
    );
    assert_eq!(receiver.received(), []);
}

/// Nobody there, or no webhook any more: it waits, or is seen.
#[tokio::test]
async fn nobody_there_is_waited_for() {
    let house = telling("http://127.0.0.1:1/");
    talked(&house).await;
    assert_eq!(deliver(&house).await, [Delivered::Later]);
    let why = listed(&house).await["webhooks"][0]["last_error"].clone();
    assert!(why.as_str().is_some_and(|why| why.starts_with("cannot reach `127.0.0.1`")), "{why}");
}

/// A process that stopped in the middle of a delivery delivers again after its start, by the same id.
#[tokio::test]
async fn what_was_under_way_is_sent_again_after_a_restart() {
    let receiver = Receiver::start(&[]).await;
    let house = telling(&receiver.url());
    talked(&house).await;
    let claim = house.memory.claim_parcel(Vec::new()).await.expect("answered").expect("it is due");
    // It got there, and the process died before that was noted.
    let (memory, under_way) = (house.memory.clone(), claim.clone());
    let delivered = memory.deliver(&under_way);
    tokio::time::timeout(Duration::from_millis(1), delivered).await.err();
    let house = house.reopen().await;
    let again = deliver(&house).await;
    assert!(again == [Delivered::Yes] || again.is_empty(), "{again:?}");
    let received = receiver.received();
    assert!(!received.is_empty() && received.iter().all(|request| request.header("webhook-id") == claim.parcel.id));
    assert!(received.iter().all(|request| request.body == received[0].body));
}

/// The same with the real process, killed while the receiver hangs: delivered after the restart, by the same id, with no
/// request in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_delivers_after_its_restart() {
    let receiver = Receiver::start(&[Mood::Hangs]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let url = receiver.url();
    let settings = [
        ("RECALLD_SESSION_END_WEBHOOK", url.as_str()),
        ("RECALLD_SESSION_END_SECRET", SECRET),
        ("RECALLD_WEBHOOK_PRIVATE_ADDRESSES", "true"),
        ("RECALLD_UPSTREAM", "builtin"),
    ];
    let start = || tokio::task::block_in_place(|| Server::start(folder.path(), &settings));
    let server = start();
    let session = [("x-session-id", SESSION)];
    tokio::task::block_in_place(|| {
        assert_eq!(server.send("POST", "/chat", &session, r#"{"query": "My dog is called Rex."}"#).0, 200);
        assert_eq!(server.send("POST", &format!("/api/v1/sessions/{SESSION}/end"), &[], "").0, 200);
    });
    eventually("the receiver is called", async || (receiver.received().len() == 1).then_some(())).await;
    server.kill();
    let server = start();
    let received = eventually("it is called again", async || {
        let received = receiver.received();
        (received.len() == 2).then_some(received)
    })
    .await;
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[0].body, received[1].body);
    eventually("it is gone", async || {
        let (_, list) = tokio::task::block_in_place(|| server.send("GET", "/api/v1/webhooks", &[], ""));
        (list["counts"]["queued"] == 0).then_some(())
    })
    .await;
}

/// The worker delivers by itself; when everything stops, what hangs is put back as if it had not been tried.
#[tokio::test]
async fn a_worker_delivers_and_puts_back_what_hangs() {
    let receiver = Receiver::start(&[Mood::Takes, Mood::Hangs]).await;
    let house = telling(&receiver.url());
    let worker = Worker::start(house.memory.clone(), Arc::clone(&house.watch), Duration::from_secs(3600));
    talked(&house).await;
    eventually("it is delivered", async || (house.metric("recalld_webhooks_delivered_total").await == 1).then_some(()))
        .await;
    house.chat(SESSION, "And a cat called Tom.").await;
    end(&house).await;
    eventually("the receiver hangs", async || (receiver.received().len() == 2).then_some(())).await;
    worker.stop().await;
    let left = listed(&house).await;
    assert_eq!((&left["counts"]["queued"], &left["webhooks"][0]["state"]), (&json!(1), &json!("queued")));
    assert_eq!(deliver_later(&house).await, [Delivered::Yes]);
}

async fn deliver_later(house: &House) -> Vec<Delivered> {
    house.clock.advance(SignedDuration::from_hours(1));
    deliver(house).await
}

fn visit(tenant: &str) -> SessionEnd {
    let at = "2026-01-01T12:00:00Z".parse().expect("a time");
    let said = EndedMessage { role: Role::User, name: None, content: "Where is my parcel?".into(), created_at: at };
    SessionEnd {
        tenant: Tenant::parse(tenant).expect("a tenant"),
        user: None,
        session: "+15551234567".into(),
        reason: EndReason::Ttl,
        created_at: at,
        last_accessed: at,
        message_count: 1,
        messages: vec![said],
        summaries: vec![EndedSummary { from: at, to: at, text: "A parcel is missing.".into() }],
    }
}

/// A tenant has its own receiver and secret, which nobody is shown; others' receivers hear nothing of it.
#[tokio::test]
async fn a_tenant_has_a_receiver_of_its_own() {
    let (servers, tenants) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let house = telling(&servers.url());
    let settings = json!({ "session_end_webhook": tenants.url() });
    let without = house.post("/api/v1/tenants").json(json!({ "name": "acme", "settings": settings })).await;
    assert_eq!(without.refusal(), (400, "invalid_settings"));
    let settings = json!({ "session_end_webhook": tenants.url(), "session_end_secret": OWN_SECRET });
    let made = house.post("/api/v1/tenants").json(json!({ "name": "acme", "settings": settings })).await;
    assert_eq!(made.expect(201)["settings"]["session_end_secret"], "whsec_…");
    for path in ["/api/v1/tenants", "/api/v1/tenants/acme"] {
        assert!(!house.get(path).send().await.text().contains(&OWN_SECRET[6..]));
    }
    // After a start nobody has come yet, and the tenant's settings count all the same.
    let house = house.reopen().await;
    house.memory.session_ended(visit("acme")).await.expect("it is kept");
    house.memory.session_ended(visit("globex")).await.expect("it is kept");
    assert_eq!(listed(&house).await["counts"]["queued"], 0, "the tenant `default` has none");
    assert_eq!(deliver(&house).await, [Delivered::Yes, Delivered::Yes]);
    let (own, other) = (tenants.received(), servers.received());
    assert_eq!((own.len(), other.len()), (1, 1));
    for (request, secret, tenant) in [(&own[0], OWN_SECRET, "acme"), (&other[0], SECRET, "globex")] {
        let (id, at) = (request.header("webhook-id"), request.header("webhook-timestamp"));
        let signed = SigningSecret::parse(secret).expect("a secret").sign(
            id,
            at.parse().expect("seconds"),
            request.body.as_bytes(),
        );
        assert_eq!(request.header("webhook-signature"), signed);
        assert!(request.body.contains(&format!("\"tenant_id\":\"{tenant}\"")));
    }
}

/// Without a webhook nothing is written down; a hook hears of it all the same, and one that panics breaks nothing.
#[tokio::test]
async fn a_hook_is_told_and_nothing_is_written_down() {
    let heard: Arc<Mutex<Vec<SessionEnd>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let hook = move |end: Arc<SessionEnd>| {
        let heard = Arc::clone(&hearing);
        async move {
            heard.lock().expect("no other panics").push((*end).clone());
            assert_ne!(end.tenant.as_str(), "acme", "a hook that panics");
        }
    };
    let house = House::plan().ending(EndHooks { hook: Some(Arc::new(hook)), courier: None }).open();
    house.memory.session_ended(visit("acme")).await.expect("told");
    talked(&house).await;
    let heard = heard.lock().expect("no other panics").clone();
    assert_eq!(heard[0], visit("acme"));
    assert_eq!(
        (heard[1].reason, heard[1].message_count, heard[1].messages[0].content.as_str()),
        (EndReason::Explicit, 2, "My dog is called Rex.")
    );
    assert_eq!(listed(&house).await["counts"]["queued"], 0);
    assert_eq!(house.metric("recalld_sessions_ended_total").await, 2);
}

/// What was given up does not wait for ever.
#[tokio::test]
async fn what_was_given_up_is_forgotten_in_time() {
    let receiver = Receiver::start(&[Mood::Fails(410)]).await;
    let house = telling(&receiver.url());
    talked(&house).await;
    deliver(&house).await;
    for (days, dead) in [(13, 1), (2, 0)] {
        house.clock.advance(SignedDuration::from_hours(24 * days));
        house.post("/api/v1/cleanup").send().await.expect(200);
        assert_eq!(listed(&house).await["counts"]["dead"], dead);
    }
}
