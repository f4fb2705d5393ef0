//! Every route and every kind of key: what `tests/data/routes.txt` says is what happens.

use axum::body::Body;
use jiff::SignedDuration;
use recalld::scope::Tenant;
use recalld::store::{Parcel, Store};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::house::{Answer, Ask, House};

pub(crate) const API_KEY: &str = "the key of the settings";
const TABLE: &str = include_str!("../data/routes.txt");
/// The columns of the table.
const KEYS: [&str; 9] = ["none", "bad", "expired", "revoked", "read", "bob", "globex", "own", "admin"];

/// A line of the table.
struct Row {
    method: &'static str,
    path: &'static str,
    statuses: Vec<u16>,
    body: &'static str,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| row(line).unwrap_or_else(|| panic!("not a row: {line}"))).collect()
}

fn row(line: &'static str) -> Option<Row> {
    let word = |line: &'static str| line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
    let ((method, rest), mut statuses) = (word(line), Vec::new());
    let (path, mut rest) = word(rest);
    for _ in KEYS {
        let (status, more) = word(rest);
        statuses.push(status.trim().parse().ok()?);
        rest = more;
    }
    Some(Row { method, path, statuses, body: rest.trim() })
}

/// A house with two tenants and a key of every kind.
struct Scene {
    house: House,
    /// By the names of the columns.
    keys: Vec<Option<String>>,
}

async fn admin(house: &House, method: &str, path: &str, body: Value) -> Value {
    let ask = house.ask(method, path).header("x-api-key", API_KEY).header("x-tenant-id", "acme").user("ann");
    let answer = if body.is_null() { ask.send().await } else { ask.json(body).await };
    assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.text());
    answer.json()
}

async fn scene() -> Scene {
    let house = House::plan().setting(|settings| {
        settings.api_key = API_KEY.into();
        settings.client_address_header = "x-client".into();
    });
    let house = house.open();
    for tenant in ["acme", "globex"] {
        admin(&house, "POST", "/api/v1/tenants", json!({ "name": tenant })).await;
    }
    let all = json!(["read", "write", "erase", "files"]);
    let key = async |tenant: &str, user: &str, rights: &Value, more: Value| {
        let mut body = json!({ "tenant": tenant, "user_id": user, "rights": rights });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        admin(&house, "POST", "/api/v1/keys", body).await
    };
    let text = |made: &Value| made["key"].as_str().expect("a key").to_owned();
    let expired = key("acme", "ann", &all, json!({ "expires_in": "1s" })).await;
    let revoked = key("acme", "ann", &all, json!({})).await;
    admin(&house, "DELETE", &format!("/api/v1/keys/{}", revoked["id"].as_str().expect("an id")), Value::Null).await;
    house.clock.advance(SignedDuration::from_secs(2));
    let read = key("acme", "ann", &json!(["read"]), json!({})).await;
    let bob = key("acme", "bob", &all, json!({})).await;
    let globex = key("globex", "gus", &all, json!({})).await;
    let own = key("acme", "ann", &all, json!({})).await;
    let bad = format!("{}f", &text(&own)[..text(&own).len() - 1]);
    let good = [expired, revoked, read, bob, globex, own].map(|made| Some(text(&made)));
    let keys = [None, Some(bad)].into_iter().chain(good).chain([Some(API_KEY.to_owned())]).collect();
    Scene { house, keys }
}

impl Scene {
    /// A request for ann of acme, with one of the keys.
    fn ask(&self, method: &str, path: &str, key: &str) -> Ask<'_> {
        let path = path.strip_prefix("/v1/").map_or(path.to_owned(), |rest| format!("/v1/acme/{rest}"));
        // An address of its own for each request: wrong keys are counted by address.
        let address = format!("2001:db8:{:x}::1", Uuid::new_v4().as_u128() as u16);
        let ask = self.house.ask(method, &path).header("x-tenant-id", "acme").header("x-client", &address).user("ann");
        self.with_key(ask, key)
    }

    fn with_key<'a>(&self, ask: Ask<'a>, key: &str) -> Ask<'a> {
        let at = KEYS.iter().position(|name| *name == key).expect("a column");
        match &self.keys[at] {
            Some(key) => ask.header("authorization", &format!("Bearer {key}")),
            None => ask,
        }
    }

    /// A path with things of ann's in it, made for this request.
    async fn filled_in(&self, path: &str) -> String {
        let Some((before, _)) = path.split_once("/{") else { return path.to_owned() };
        let noun = before.rsplit('/').next().expect("a word");
        let id = match noun {
            "sessions" => self.said().await["session_id"].clone(),
            // A message's turn is the beginning of its id.
            "turns" | "messages" => self.said().await["metadata"]["turn_id"].clone(),
            "topics" => {
                self.said().await;
                admin(&self.house, "GET", "/api/v1/topics", Value::Null).await["topics"][0]["id"].clone()
            }
            "tenants" => {
                let name = Uuid::new_v4().to_string();
                admin(&self.house, "POST", "/api/v1/tenants", json!({ "name": name })).await["name"].clone()
            }
            "users" => {
                self.said().await;
                json!("ann")
            }
            "webhooks" => self.webhook().await,
            "knowledge" => {
                let note = json!({ "title": Uuid::new_v4().to_string(), "text": "Rex sleeps in the shed." });
                admin(&self.house, "POST", "/api/v1/knowledge", note).await["documents"][0]["id"].clone()
            }
            "facts" => self.fact().await,
            "clarifications" => {
                let session = self.said().await["session_id"].clone();
                let body = json!({ "session_id": session, "question": "Which one?", "options": ["red", "blue"] });
                admin(&self.house, "POST", "/api/v1/clarifications", body).await;
                session
            }
            "keys" => admin(&self.house, "POST", "/api/v1/keys", json!({ "rights": ["read"] })).await["id"].clone(),
            _ => json!(Uuid::new_v4().to_string()),
        };
        with_id(path, id.as_str().expect("an id"))
    }

    async fn said(&self) -> Value {
        admin(&self.house, "POST", "/chat", json!({ "query": "My dog is called Rex and lives in the garden." })).await
    }
}

impl Scene {
    /// A webhook of acme's that is yet to be delivered.
    async fn webhook(&self) -> Value {
        let id = format!("msg_{}", Uuid::new_v4().simple());
        let parcel = Parcel {
            id: id.clone(),
            tenant: Tenant::parse("acme").expect("a tenant"),
            user: None,
            session: "visit".into(),
            reason: "ttl".into(),
            body: "{}".into(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
        };
        self.house.store.outbox().put(parcel).await.expect("it is kept");
        json!(id)
    }

    async fn fact(&self) -> Value {
        let body = json!({ "key": "city", "value": format!("Lisbon {}", Uuid::new_v4()) });
        admin(&self.house, "POST", "/api/v1/users/ann/facts", body).await["id"].clone()
    }

    /// A body with things of ann's in it.
    async fn filled_body(&self, body: &str) -> String {
        let fact = if body.contains("{fact}") { self.fact().await } else { Value::Null };
        body.replace("{fact}", fact.as_str().unwrap_or_default()).replace("{new}", &Uuid::new_v4().to_string())
    }
}

fn with_id(path: &str, id: &str) -> String {
    path.replace("{id}", id).replace("{name}", id)
}

async fn send(ask: Ask<'_>, body: &str) -> Answer {
    if body.is_empty() {
        return ask.send().await;
    }
    ask.header("content-type", "application/json").body(Body::from(body.to_owned())).await
}

/// All rows are run.
#[tokio::test]
async fn every_key_gets_what_the_table_says() {
    let scene = scene().await;
    let mut wrong = Vec::new();
    for row in rows() {
        let mut found = Vec::new();
        for key in KEYS {
            let path = scene.filled_in(row.path).await;
            let body = scene.filled_body(row.body).await;
            let answer = send(scene.ask(row.method, &path, key), &body).await;
            if [401, 403].contains(&answer.status) {
                assert!(!answer.code().is_empty(), "{key}: {} {}: {}", row.method, row.path, answer.text());
            }
            found.push(answer.status);
        }
        if found != row.statuses {
            wrong.push(format!("{} {}\n   said {:?}\n  found {found:?}", row.method, row.path, row.statuses));
        }
    }
    assert!(wrong.is_empty(), "columns are {KEYS:?}\n{}", wrong.join("\n"));
}

/// A route that is added without a line in the table fails here.
#[test]
fn every_route_has_a_row() {
    let api: Value = serde_json::from_str(&recalld::api::openapi_json()).expect("JSON");
    let rows = rows();
    for (path, methods) in api["paths"].as_object().expect("paths") {
        for (method, _) in methods.as_object().expect("methods").iter().filter(|(name, _)| *name != "parameters") {
            let method = method.to_uppercase();
            let has = rows.iter().any(|row| row.method == method && row.path.split('?').next() == Some(path));
            assert!(has, "tests/data/routes.txt has no row for {method} {path}");
        }
    }
}

/// The description says which right each route takes, and the open ones say that they take none.
#[test]
fn the_description_names_the_rights() {
    let api: Value = serde_json::from_str(&recalld::api::openapi_json()).expect("JSON");
    let right = |path: &str, method: &str| api["paths"][path][method]["security"][0]["key"][0].clone();
    assert_eq!(right("/chat", "post"), "write");
    assert_eq!(right("/api/v1/sessions/{id}", "delete"), "erase");
    assert_eq!(right("/api/v1/keys", "get"), "admin");
    assert_eq!(right("/healthz", "get"), Value::Null);
}

/// B6, P3: what belongs to another user or tenant is answered exactly as what does not exist.
#[tokio::test]
async fn foreign_ids_are_as_good_as_unknown_ones() {
    let scene = scene().await;
    let mut walked = 0;
    for row in rows().iter().filter(|row| row.path.contains("/{")) {
        // What a tenant knows is shared by all its users.
        let strangers = if row.path.contains("/knowledge/") { &["globex"][..] } else { &["bob", "globex"] };
        for key in strangers {
            let foreign = scene.filled_in(row.path).await;
            let before = row.path.split("/{").next().expect("a path").len() + 1;
            let id = foreign[before..].split('/').next().expect("an id").to_owned();
            let unknown = if id.len() == 36 { Uuid::new_v4().to_string() } else { id.chars().rev().collect() };
            // The tenant is not named: then a key is its own tenant's.
            let ask = |path: &str| scene.with_key(scene.house.ask(row.method, path), key);
            let body = scene.filled_body(row.body).await;
            let of_foreign = send(ask(&foreign), &body).await;
            let of_unknown = send(ask(&with_id(row.path, &unknown)), &body).await;
            let (a, b) = (of_foreign.text().replace(&id, "ID"), of_unknown.text().replace(&unknown, "ID"));
            assert_eq!((of_foreign.status, a), (of_unknown.status, b), "{key}: {} {}", row.method, row.path);
            assert!(of_foreign.status == 404 || of_foreign.status == 403, "{key}: {} {}", row.method, row.path);
            walked += 1;
        }
    }
    assert!(walked > 30, "{walked}");
}

/// B6: a foreign session in a header begins a conversation of one's own.
#[tokio::test]
async fn a_foreign_session_in_a_header_is_a_new_one() {
    let scene = scene().await;
    let session = scene.said().await["session_id"].as_str().expect("an id").to_owned();
    for key in ["bob", "globex"] {
        let ask = scene.with_key(scene.house.post("/chat"), key).session(&session);
        let answer = ask.json(json!({ "query": "What is my dog called?" })).await.expect(200);
        assert_eq!(answer["metadata"]["turn_number"], 1, "{key}");
        assert!(!answer.to_string().contains("Rex"), "{key}: {answer}");
    }
}
