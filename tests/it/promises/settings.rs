//! Settings, names and roles as the documents write them.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::house::House;
use crate::openai::open;
use crate::outages::database::Database;
use crate::process::{Server, recalld};

/// What a command answers in an empty folder with these settings.
fn run(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    recalld(folder, arguments, settings).stdout(Stdio::piped()).output().expect("it runs")
}

/// The settings in force.
fn shown(folder: &Path, settings: &[(&str, &str)]) -> Value {
    let output = run(folder, &["config", "show", "--json"], settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A value as a variable writes it: text without quotes, a list with commas.
fn as_variable(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(as_variable).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[test]
fn every_setting_can_be_written_as_a_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let defaults = shown(folder.path(), &[]);
    for (name, value) in defaults.as_object().expect("settings") {
        let (variable, text) = (format!("RECALLD_{}", name.to_uppercase()), as_variable(value));
        assert_eq!(shown(folder.path(), &[(&variable, &text)])[name], *value, "{variable}={text}");
    }
}

#[test]
fn a_variable_has_the_type_of_its_setting_whatever_the_file_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let megabytes =
        |text: &str| shown(folder.path(), &[("RECALLD_SESSION_MEMORY_MAX_MB", text)])["session_memory_max_mb"].clone();
    assert_eq!((megabytes("10"), megabytes("2.5")), (json!(10.0), json!(2.5)));
    std::fs::write(folder.path().join("recalld.toml"), "session_memory_max_mb = 5").expect("written");
    assert_eq!((megabytes("10"), megabytes("2.5")), (json!(10.0), json!(2.5)));
    for text in ["nan", "inf", "ten", "0"] {
        let refused = run(folder.path(), &["config", "check"], &[("RECALLD_SESSION_MEMORY_MAX_MB", text)]);
        assert!(!refused.status.success(), "{text}");
    }
}

/// As in docs/cli.md.
#[test]
fn a_list_in_a_variable_is_written_with_commas() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        ("RECALLD_USER_HEADERS", "X-Who, X-OpenWebUI-User-Id"),
        ("RECALLD_SESSION_HEADERS", "X-Chat"),
        ("RECALLD_MODEL_ALIASES", "small=qwen3, large=gpt-5"),
    ];
    let shown = shown(folder.path(), &settings);
    assert_eq!(shown["user_headers"], json!(["X-Who", "X-OpenWebUI-User-Id"]));
    assert_eq!(shown["session_headers"], json!(["X-Chat"]));
    assert_eq!(shown["model_aliases"], json!(["small=qwen3", "large=gpt-5"]));
}

/// As in docs/live.md: the id names the tenant, as it does in a path.
#[tokio::test]
async fn a_visitors_session_is_begun_by_its_id_alone() {
    let (house, _) = open();
    let begin = |body: Value| house.post("/api/v1/sessions").json(body);
    let made = begin(json!({"id": "acme:v", "ttl": "2h", "metadata": {"team": "a"}})).await.expect(201);
    assert_eq!((&made["id"], &made["tenant_id"], &made["ttl"]), (&json!("acme:v"), &json!("acme"), &json!("2h")));
    let seen = house.get("/api/v1/sessions/acme:v").send().await.expect(200);
    assert_eq!(seen["metadata"]["team"], "a");
    let other = house.post("/api/v1/sessions").header("x-tenant-id", "globex").json(json!({"id": "acme:v"})).await;
    assert_eq!(other.refusal(), (400, "invalid_id"));
}

#[tokio::test]
async fn a_key_of_one_tenant_begins_no_session_of_another() {
    let (house, _) = open();
    for name in ["acme", "globex"] {
        house.post("/api/v1/tenants").json(json!({ "name": name })).await.expect(201);
    }
    let make = async |admin: &str, body: Value| {
        let made = house.post("/api/v1/keys").header("authorization", &format!("Bearer {admin}")).json(body).await;
        made.expect(201)["key"].as_str().expect("a key").to_owned()
    };
    let admin = make("", json!({"name": "admin", "rights": ["admin", "read", "write"]})).await;
    let acme = make(&admin, json!({"name": "acme", "tenant": "acme", "rights": ["write"]})).await;
    let begin = |key: &str| {
        house.post("/api/v1/sessions").header("authorization", &format!("Bearer {key}")).json(json!({"id": "acme:v"}))
    };
    begin(&acme).await.expect(201);
    begin(&admin).await.expect(201);
    let globex = make(&admin, json!({"name": "globex", "tenant": "globex", "rights": ["write"]})).await;
    assert_eq!(begin(&globex).await.refusal(), (403, "wrong_tenant"));
}

#[tokio::test]
async fn a_limit_counts_for_the_tenant_whose_session_is_begun() {
    let (house, _) = open();
    let limited = json!({"name": "acme", "settings": {"requests_per_minute": 1}});
    house.post("/api/v1/tenants").json(limited).await.expect(201);
    let begin = || house.post("/api/v1/sessions").json(json!({"id": "acme:v"}));
    begin().await.expect(201);
    assert_eq!(begin().await.refusal(), (429, "rate_limit_exceeded"));
}

/// A colon in a path ends the tenant's name, so a name with a colon could not be reached.
#[tokio::test]
async fn a_tenant_with_a_colon_is_refused_everywhere() {
    let house = House::open();
    let chat = house.post("/chat").header("x-tenant-id", "a:b").json(json!({"query": "Hi"})).await;
    assert_eq!(chat.refusal(), (400, "invalid_id"));
    assert!(chat.json()["detail"].as_str().is_some_and(|detail| detail.contains("colon")), "{}", chat.text());
    let list = house.get("/api/v1/sessions").header("x-tenant-id", "a:b").send().await;
    assert_eq!(list.refusal(), (400, "invalid_id"));
    let key = house.post("/api/v1/keys").json(json!({"name": "k", "tenant": "a:b", "rights": ["admin"]})).await;
    assert_eq!(key.refusal(), (400, "invalid_id"));
    let folder = tempfile::tempdir().expect("a folder");
    let asked = run(folder.path(), &["--tenant", "a:b", "sessions", "list", "--data", "r.db"], &[]);
    assert!(!asked.status.success());
}

/// A role that may create roles and databases, and no more: what a hosted PostgreSQL gives.
fn plain_owner(database: Option<Database>) {
    let Some(database) = database else { return };
    for n in [1, 2] {
        assert!(database.say(&format!(
            "CREATE ROLE owner_{n} LOGIN CREATEROLE CREATEDB;CREATE DATABASE memory_{n} OWNER owner_{n}"
        )));
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("postgres://owner_{n}@127.0.0.1:{}/memory_{n}", database.port);
        let settings = [("RECALLD_DATABASE_URL", url.as_str()), ("RECALLD_UPSTREAM", "builtin")];
        let migrated = run(folder.path(), &["migrate"], &settings);
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        let server = Server::start(folder.path(), &settings);
        let (status, answer) = server.send("POST", "/chat", &[], r#"{"query": "Hello"}"#);
        assert_eq!((status, &answer["status"]), (200, &Value::Null), "{answer}");
        let (_, ready) = server.send("GET", "/readyz", &[], "");
        assert_eq!(ready["status"], "ok", "{ready}");
    }
    // The first one made the role and serves as it; the second may not become it, and serves as itself.
    let may = |owner: &str| database.ask(&format!("SELECT pg_has_role('{owner}', 'recalld_runtime', 'SET')"));
    assert_eq!((may("owner_1").as_str(), may("owner_2").as_str()), ("t", "f"));
}

#[test]
fn a_plain_owner_of_postgres_16_can_start() {
    plain_owner(Database::start_16());
}

#[test]
fn a_plain_owner_of_postgres_18_can_start() {
    plain_owner(Database::start_18());
}
