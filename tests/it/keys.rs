//! Keys: made once, checked at the door, bound to whom they say, ended when somebody says so.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::house::{Answer, Ask, House, SESSION, keys};
use crate::process::{Server, recalld};
use crate::routes::API_KEY;

fn closed() -> House {
    House::plan().setting(|settings| settings.api_key = API_KEY.into()).open()
}

fn admin<'a>(house: &'a House, method: &str, path: &str) -> Ask<'a> {
    house.ask(method, path).header("x-api-key", API_KEY)
}

async fn make(house: &House, body: Value) -> Value {
    admin(house, "POST", "/api/v1/keys").json(body).await.expect(201)
}

/// The text of a new key.
async fn key(house: &House, body: Value) -> String {
    make(house, body).await["key"].as_str().expect("a key").to_owned()
}

async fn tenant(house: &House, name: &str, settings: Value) {
    admin(house, "POST", "/api/v1/tenants").json(json!({ "name": name, "settings": settings })).await.expect(201);
}

fn with<'a>(ask: Ask<'a>, key: &str) -> Ask<'a> {
    ask.header("authorization", &format!("Bearer {key}"))
}

async fn sessions(house: &House, key: &str) -> Answer {
    with(house.get("/api/v1/sessions"), key).send().await
}

/// Without keys this machine may do everything; the first key is an admin's and closes the doors.
#[tokio::test]
async fn the_first_key_closes_the_doors() {
    let house = House::open();
    house
        .post("/v1/acme/chat/completions")
        .json(json!({"messages": [{"role": "user", "content": "Hi"}]}))
        .await
        .expect(200);
    let refused = house.post("/api/v1/keys").json(json!({"rights": ["read", "write"]})).await;
    assert_eq!(refused.refusal(), (409, "first_key_is_admin"));
    assert_eq!(house.get("/api/v1/sessions").send().await.status, 200, "nothing was closed by that");

    let made = house.post("/api/v1/keys").json(json!({"rights": ["admin"], "name": "mine"})).await.expect(201);
    let admin = made["key"].as_str().expect("a key");
    assert_eq!(house.get("/api/v1/sessions").send().await.refusal(), (401, "unauthorized"));
    assert_eq!(house.get("/healthz").send().await.status, 200);
    assert_eq!(sessions(&house, admin).await.refusal(), (403, "missing_right"), "`admin` alone reads nobody's words");
    let worker = json!({"rights": ["read", "write"], "tenant": "default", "user_id": "ann"});
    let worker = with(house.post("/api/v1/keys"), admin).json(worker).await.expect(201);
    assert_eq!(sessions(&house, worker["key"].as_str().expect("a key")).await.status, 200);

    // Once closed it stays closed, even when every key is revoked.
    for made in [&worker, &made] {
        let path = format!("/api/v1/keys/{}", made["id"].as_str().expect("an id"));
        with(house.ask("DELETE", &path), admin).send().await.expect(200);
    }
    assert_eq!(sessions(&house, admin).await.refusal(), (401, "key_revoked"));
    assert_eq!(house.get("/api/v1/sessions").send().await.refusal(), (401, "unauthorized"));
    let house = house.reopen().await;
    assert_eq!(house.get("/api/v1/sessions").send().await.refusal(), (401, "unauthorized"), "after a restart, too");
}

/// A key is shown once and kept as a seal; its secret is nowhere in the file.
#[tokio::test]
async fn a_key_is_shown_once() {
    let house = closed();
    let body = json!({"rights": ["read", "erase"], "name": "the shop", "expires_in": "90d"});
    let made = make(&house, body).await;
    let text = made["key"].as_str().expect("a key").to_owned();
    let (id, secret) = text.strip_prefix("rk_").and_then(|rest| rest.split_once('_')).expect("rk_<id>_<secret>");
    assert_eq!(made["id"], id);
    let listed = admin(&house, "GET", "/api/v1/keys").send().await;
    assert!(!listed.text().contains(secret));
    let listed = listed.expect(200);
    let shown = &listed["keys"][0];
    assert_eq!(
        (&shown["name"], &shown["rights"], &shown["state"]),
        (&json!("the shop"), &json!(["read", "erase"]), &json!("active"))
    );
    assert_eq!((&shown["tenant"], &shown["trust_identity"]), (&Value::Null, &json!(false)));
    assert_eq!(shown["expires_at"].as_str().map(|at| &at[..10]), Some("2026-04-01"));
    assert!(!keys(shown).contains(&"key"));

    let data = house.data();
    house.memory.close(std::time::Duration::from_secs(5)).await.expect("closes");
    for file in std::fs::read_dir(data.parent().expect("a folder")).expect("a folder").flatten() {
        let bytes = std::fs::read(file.path()).expect("a file");
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "the secret is in {}", file.path().display());
    }
}

/// Rotation leaves time to change, revocation none, and keys end by themselves.
#[tokio::test]
async fn keys_are_rotated_revoked_and_expire() {
    let house = closed();
    let old =
        make(&house, json!({"rights": ["read"], "tenant": "default", "user_id": "ann", "expires_in": "1d"})).await;
    let (id, old) = (old["id"].as_str().expect("an id"), old["key"].as_str().expect("a key"));
    let rotate = admin(&house, "POST", &format!("/api/v1/keys/{id}/rotate?overlap=1h")).send().await.expect(201);
    let new = rotate["key"].as_str().expect("a key");
    assert_eq!((&rotate["rights"], &rotate["user_id"]), (&json!(["read"]), &json!("ann")));
    assert_eq!((sessions(&house, old).await.status, sessions(&house, new).await.status), (200, 200));
    house.clock.advance(SignedDuration::from_hours(1));
    assert_eq!(sessions(&house, old).await.refusal(), (401, "key_expired"));
    assert_eq!(sessions(&house, new).await.status, 200);
    let again = admin(&house, "POST", &format!("/api/v1/keys/{id}/rotate")).send().await;
    assert_eq!(again.refusal(), (409, "key_ended"));

    let path = format!("/api/v1/keys/{}", rotate["id"].as_str().expect("an id"));
    assert_eq!(admin(&house, "DELETE", &path).send().await.expect(200)["state"], "revoked");
    assert_eq!(sessions(&house, new).await.refusal(), (401, "key_revoked"), "at once");
    let unknown = admin(&house, "DELETE", "/api/v1/keys/ffffffffffff").send().await;
    assert_eq!(unknown.refusal(), (404, "unknown_key"));
    let nonsense = admin(&house, "DELETE", "/api/v1/keys/nonsense").send().await;
    assert_eq!(nonsense.refusal(), (400, "invalid_key_id"));
}

/// Bad requests for keys change nothing and say what is wrong.
#[tokio::test]
async fn keys_that_make_no_sense_are_refused() {
    let house = closed();
    let before = admin(&house, "GET", "/api/v1/keys").send().await.expect(200);
    for (body, status, code) in [
        (json!({"rights": []}), 400, "invalid_key"),
        (json!({"rights": ["sudo"]}), 400, "invalid_key"),
        (json!({"rights": ["admin"], "tenant": "default"}), 400, "invalid_key"),
        (json!({"rights": ["read"], "user_id": "ann"}), 400, "invalid_key"),
        (json!({"rights": ["read"], "tenant": "nobody"}), 404, "unknown_tenant"),
        (json!({"rights": ["read"], "expires_at": "2020-01-01T00:00:00Z"}), 400, "invalid_key"),
        (json!({"rights": ["read"], "expires_at": "soon"}), 400, "invalid_expiry"),
        (json!({"rights": ["read"], "expires_in": "1d", "expires_at": "2030-01-01T00:00:00Z"}), 400, "invalid_expiry"),
        (json!({"rights": ["read"], "expires_in": "soon"}), 400, "invalid_json"),
        (json!({"rights": ["read"], "right": 1}), 400, "invalid_json"),
        (json!({}), 400, "invalid_json"),
    ] {
        let answer = admin(&house, "POST", "/api/v1/keys").json(body.clone()).await;
        assert_eq!(answer.refusal(), (status, code), "{body}");
    }
    assert_eq!(admin(&house, "GET", "/api/v1/keys").send().await.expect(200), before);
}

/// DESIGN 4: a key's tenant and user come first; headers and bodies count only for keys that vouch for them.
#[tokio::test]
async fn a_key_says_who_asks() {
    let house = closed();
    tenant(&house, "acme", json!({})).await;
    let rights = json!(["read", "write"]);
    let bound = key(&house, json!({"rights": rights, "tenant": "acme", "user_id": "ann"})).await;
    let vouching = key(&house, json!({"rights": rights, "tenant": "acme", "trust_identity": true})).await;
    let plain = key(&house, json!({"rights": rights, "tenant": "acme"})).await;
    let chat = async |key: &str| {
        let asked =
            with(house.post("/chat"), key).session(SESSION).user("bob").json(json!({"query": "Hi", "user_id": "eve"}));
        asked.await.expect(200);
        admin(&house, "GET", &format!("/api/v1/sessions/{SESSION}/turns")).header("x-tenant-id", "acme")
    };
    let who = async |ask: Ask<'_>, user: &str| ask.user(user).send().await.status;
    assert_eq!(who(chat(&bound).await, "ann").await, 200);
    assert_eq!(who(chat(&plain).await, &format!("~{SESSION}")).await, 200, "known by the session alone");
    let eve = admin(&house, "GET", &format!("/api/v1/sessions/{SESSION}/turns")).header("x-tenant-id", "acme");
    assert_eq!(who(eve, "bob").await, 404, "neither was believed");
    assert_eq!(who(chat(&vouching).await, "bob").await, 200);

    let nobody = with(house.get("/api/v1/sessions"), &plain).user("bob").send().await;
    assert_eq!(nobody.refusal(), (400, "no_user"));
    assert!(nobody.text().contains("trust_identity"), "{}", nobody.text());
    let mine = with(house.get("/api/v1/sessions?user_id=bob"), &bound).send().await.expect(200);
    assert_eq!(mine["sessions"][0]["user_id"], "ann");
}

/// DESIGN 4: the path's tenant and the header's must be the key's, or not be there.
#[tokio::test]
async fn a_key_opens_its_own_tenant_only() {
    let house = closed();
    tenant(&house, "acme", json!({})).await;
    let own = key(&house, json!({"rights": ["read", "write"], "tenant": "acme", "user_id": "ann"})).await;
    let any = key(&house, json!({"rights": ["read", "write"], "trust_identity": true})).await;
    let body = || json!({"messages": [{"role": "user", "content": "Hi"}]});
    for (path, status) in [
        ("/v1/chat/completions", 200),
        ("/v1/acme/chat/completions", 200),
        ("/v1/default/chat/completions", 403),
        ("/v1/globex/chat/completions", 403),
        ("/v1/globex:visit/chat/completions", 403),
        ("/v1/acme:visit/chat/completions", 200),
    ] {
        let answer = with(house.post(path), &own).json(body()).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert_eq!(with(house.post(path), &any).json(body()).await.status, 200, "{path}");
        if status == 403 {
            let error = &answer.json()["error"];
            assert_eq!((&error["type"], &error["code"]), (&json!("permission_error"), &json!("wrong_tenant")));
        }
    }
    let listed = sessions(&house, &own).await.expect(200);
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2), "both in acme, the visit apart: {listed}");
    let elsewhere = with(house.get("/api/v1/sessions"), &own).header("x-tenant-id", "default").send().await;
    assert_eq!(elsewhere.refusal(), (403, "wrong_tenant"));
}

/// What concerns everybody is for admins: counts of all, cleanup of all.
#[tokio::test]
async fn one_tenants_key_learns_nothing_of_the_others() {
    let house = closed();
    let own = key(&house, json!({"rights": ["read", "erase"], "tenant": "default", "user_id": "ann"})).await;
    let seen = with(house.get("/api/v1/stats"), &own).send().await.expect(200);
    for field in ["data_bytes", "chat_requests", "jobs_queued", "jobs_dead", "turns_to_understand"] {
        assert_eq!(seen[field], Value::Null, "{field}");
        assert!(admin(&house, "GET", "/api/v1/stats").send().await.expect(200)[field].is_u64(), "{field}");
    }
    assert_eq!(with(house.post("/api/v1/cleanup"), &own).send().await.refusal(), (403, "wrong_tenant"));
    let any = key(&house, json!({"rights": ["erase"]})).await;
    assert_eq!(with(house.post("/api/v1/cleanup"), &any).send().await.status, 200);
}

/// Wrong keys are counted by address; a good one of ours is let in all the same.
#[tokio::test]
async fn too_many_wrong_keys_are_refused() {
    let house = House::plan().setting(|settings| {
        settings.api_key = API_KEY.into();
        settings.client_address_header = "x-forwarded-for".into();
    });
    let house = house.open();
    let good = key(&house, json!({"rights": ["read"], "tenant": "default", "user_id": "ann"})).await;
    let from =
        |address: &str, key: &str| with(house.get("/api/v1/sessions"), key).header("x-forwarded-for", address).send();
    for _ in 0..20 {
        assert_eq!(from("192.0.2.1", "rk_000000000000_guess").await.refusal(), (401, "unauthorized"));
    }
    let refused = from("192.0.2.1", "another guess").await;
    assert_eq!(refused.refusal(), (429, "too_many_wrong_keys"));
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((1..=4).contains(&wait), "{wait}");
    assert_eq!(from("192.0.2.1", API_KEY).await.status, 429, "what a person thought up may be guessed");
    assert_eq!(from("192.0.2.1", &good).await.status, 200);
    assert_eq!(from("1.1.1.1, 192.0.2.2", "a guess").await.status, 401, "others are not held to account");
    house.clock.advance(SignedDuration::from_secs(wait as i64));
    assert_eq!(from("192.0.2.1", "a guess").await.status, 401);
}

/// What a command says, and how it ended.
fn command(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--data", "r.db"]).collect();
    let ended = recalld(folder, &arguments, settings).stdout(Stdio::piped()).output().expect("the binary runs");
    (ended.status.code(), String::from_utf8(ended.stdout).expect("text").trim().to_owned())
}

/// Whoever has the data file needs no key for it; a running server wants one, from the command line as from everybody.
#[test]
fn the_command_line_makes_keys_and_shows_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, admin) = command(folder.path(), &["keys", "create", "mine", "--rights", "read,admin"], &[]);
    assert_eq!((code, admin.len(), &admin[..3]), (Some(0), 80, "rk_"), "{admin}");
    assert_eq!(command(folder.path(), &["tenants", "create", "acme", "ttl=24h"], &[]).0, Some(0));
    assert_eq!(command(folder.path(), &["keys", "create", "--tenant", "nobody"], &[]).0, Some(3));

    let server = Server::start(folder.path(), &[]);
    let with_key = [("RECALLD_KEY", admin.as_str())];
    assert_eq!(command(folder.path(), &["keys", "list"], &[]).0, Some(1), "the server has the file");
    let (code, listed) = command(folder.path(), &["keys", "list"], &with_key);
    assert!(code == Some(0) && listed.contains("mine") && listed.contains("read,admin"), "{listed}");
    let (code, key) = command(folder.path(), &["keys", "create", "--tenant", "acme", "--user", "ann"], &with_key);
    assert_eq!(code, Some(0));
    let bearer = format!("Bearer {key}");
    let sessions = |bearer: &str| server.send("GET", "/api/v1/sessions", &[("authorization", bearer)], "").0;
    assert_eq!(sessions(&bearer), 200);
    let statuses: Vec<u16> = (0..21).map(|_| sessions("Bearer wrong")).collect();
    assert_eq!((statuses[0], statuses[20]), (401, 429), "counted by the address that connects");
    assert_eq!(sessions(&bearer), 200);

    assert_eq!(command(folder.path(), &["keys", "revoke", &key], &with_key).0, Some(0));
    assert_eq!(sessions(&bearer), 401);
    server.kill();
    let (code, shown) = command(folder.path(), &["tenants", "show", "acme", "--json"], &[]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((code, &shown["settings"]), (Some(0), &json!({"ttl": "24h"})));
}

/// A public address needs a key; one that was made is enough.
#[test]
fn a_public_address_needs_a_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let public = ["serve", "--listen", "0.0.0.0:0"];
    let refused = command(folder.path(), &public, &[]);
    assert_eq!(refused.0, Some(1));
    assert_eq!(command(folder.path(), &["keys", "create", "--rights", "admin"], &[]).0, Some(0));
    let mut served = recalld(folder.path(), &["serve", "--listen", "0.0.0.0:0", "--data", "r.db"], &[]);
    let mut served = served.spawn().expect("the binary starts");
    let lines = BufReader::new(served.stderr.take().expect("piped")).lines();
    let told = lines.map_while(Result::ok).find(|line| line.trim().starts_with("key"));
    served.kill().expect("it runs");
    served.wait().expect("it ends");
    assert!(told.is_some_and(|line| line.contains("required")), "the banner says so");
}
