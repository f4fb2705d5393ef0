//! Tenants and keys: what is written down is found, by everybody who shares the store.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::Talk;
use super::talk::draft;
use crate::period::{Period, Ttl};
use crate::scope::{Scope, Tenant, User};
use crate::session::SessionSeed;
use crate::store::{Erasure, Expiry, Register, Store};
use crate::tenant::{Key, KeyDraft, KeyState, NewKey, Right, TenantRecord, TenantSettings, Usage};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// A new session of somebody.
fn talk(store: &Arc<dyn Store>, tenant: &str, user: &str) -> Talk {
    Talk::new(store).of(tenant, user)
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("a name")
}

fn settings(changes: serde_json::Value) -> TenantSettings {
    TenantSettings::default().changed(changes.as_object().expect("an object")).expect("valid settings")
}

fn record(name: &str, settings: TenantSettings) -> TenantRecord {
    TenantRecord { tenant: tenant(name), settings, created_at: at(1_000), updated_at: at(1_000) }
}

async fn create(store: &Arc<dyn Store>, name: &str, settings: TenantSettings) -> bool {
    store.tenants().create(record(name, settings)).await.expect("a tenant is written down")
}

pub(super) async fn register(store: &Arc<dyn Store>) -> Register {
    store.tenants().register().await.expect("tenants and keys are read")
}

async fn key(store: &Arc<dyn Store>, number: u8, name: &str, expires_at: Option<Timestamp>) -> NewKey {
    let seal = store.tenants().seal([3; 32]).await.expect("a seal");
    let rights = [Right::Read, Right::Files].into_iter().collect();
    let user = Some(User::parse("ann").expect("a name"));
    let draft =
        KeyDraft { name: name.into(), tenant: Some(tenant("acme")), user, rights, trust_identity: true, expires_at };
    draft.make([number; 32], [number + 100; 32], &seal, at(1_000)).expect("a key that makes sense")
}

pub(super) async fn add(store: &Arc<dyn Store>, number: u8, name: &str) -> Key {
    let NewKey { key, .. } = key(store, number, name, None).await;
    store.tenants().add_key(key.clone(), Timestamp::MIN).await.expect("a key is kept");
    key
}

/// What is written down about a tenant comes back; the same name twice is one tenant.
pub async fn a_tenant_is_written_down_once(store: Arc<dyn Store>) {
    let own = settings(json!({"ttl": "24h", "model": "small", "templates": {"en": {"system": "You sell tea."}}}));
    assert!(create(&store, "acme", own.clone()).await);
    assert!(!create(&store, "acme", TenantSettings::default()).await);
    assert!(create(&store, "Acme", TenantSettings::default()).await, "names are told apart by case");
    let found = register(&store).await.tenants;
    assert_eq!(found, [record("Acme", TenantSettings::default()), record("acme", own)]);
    let changed = store.tenants().update(&tenant("acme"), settings(json!({"mode": "read"})), at(2_000)).await;
    assert!(changed.expect("changed"));
    let nobody = store.tenants().update(&tenant("nobody"), TenantSettings::default(), at(2_000)).await;
    assert!(!nobody.expect("answered"));
    let found = register(&store).await.tenants;
    assert_eq!((found[1].updated_at, found[1].settings.ttl), (at(2_000), None));
}

/// A key comes back as it was kept, with nothing of its secret, and is known by its seal.
pub async fn a_key_comes_back_without_its_secret(store: Arc<dyn Store>) {
    let NewKey { key, text } = key(&store, 1, "the shop", Some(at(9_000))).await;
    store.tenants().add_key(key.clone(), Timestamp::MIN).await.expect("kept");
    let found = register(&store).await.keys;
    assert_eq!(found.first(), Some(&key));
    let seal = store.tenants().seal([99; 32]).await.expect("the same seal");
    assert!(seal.fits(&text, &found[0].sealed), "a seal is made once");
    assert!(store.tenants().add_key(key, Timestamp::MIN).await.is_err(), "an id is not used twice");
}

/// A key that takes another's place leaves it a while; a revoked one is revoked for good.
pub async fn keys_are_replaced_and_revoked(store: Arc<dyn Store>) {
    let (old, other) = (add(&store, 1, "old").await, add(&store, 2, "other").await);
    let new = key(&store, 3, "new", None).await.key;
    let replaced = store.tenants().replace_key(&old.id, at(5_000), new.clone()).await.expect("answered");
    assert!(replaced);
    let found = register(&store).await.keys;
    let seen = found.iter().find(|key| key.id == old.id).expect("the old key is still there");
    assert_eq!((seen.expires_at, seen.replaced_by.as_ref()), (Some(at(5_000)), Some(&new.id)));
    assert_eq!([4_999, 5_000].map(|now| seen.state(at(now))), [KeyState::Active, KeyState::Expired]);

    let revoked = store.tenants().revoke_key(&other.id, at(2_000)).await.expect("answered").expect("known");
    assert_eq!(revoked.revoked_at, Some(at(2_000)));
    let again = store.tenants().revoke_key(&other.id, at(3_000)).await.expect("answered").expect("known");
    assert_eq!(again.revoked_at, Some(at(2_000)), "ended once");
    let next = key(&store, 4, "next", None).await.key;
    assert!(!store.tenants().replace_key(&other.id, at(9_000), next.clone()).await.expect("answered"));
    assert!(!store.tenants().replace_key(&next.id, at(9_000), next.clone()).await.expect("answered"));
    assert_eq!(store.tenants().revoke_key(&next.id, at(1)).await.expect("answered"), None);
    assert_eq!(register(&store).await.keys.len(), 3, "what was refused left nothing");
}

/// Keys that ended long ago are forgotten when a new one is made.
pub async fn ended_keys_are_forgotten_in_time(store: Arc<dyn Store>) {
    let (revoked, kept) = (add(&store, 1, "revoked").await, add(&store, 2, "kept").await);
    store.tenants().revoke_key(&revoked.id, at(2_000)).await.expect("revoked");
    let expired = key(&store, 3, "expired", Some(at(2_500))).await.key;
    store.tenants().add_key(expired, at(2_000)).await.expect("kept");
    assert_eq!(register(&store).await.keys.len(), 3, "not yet");
    let new = key(&store, 4, "new", None).await.key;
    store.tenants().add_key(new.clone(), at(3_000)).await.expect("kept");
    let found: Vec<_> = register(&store).await.keys.into_iter().map(|key| key.id).collect();
    assert_eq!(found, [kept.id, new.id]);
}

/// Whoever holds tenants and keys in memory learns of every change by the version.
pub async fn every_change_is_a_new_version(store: Arc<dyn Store>) {
    let version = async || store.tenants().version().await.expect("a version");
    let mut seen = vec![version().await];
    create(&store, "acme", TenantSettings::default()).await;
    seen.push(version().await);
    store.tenants().update(&tenant("acme"), settings(json!({"model": "m"})), at(1)).await.expect("changed");
    seen.push(version().await);
    let key_id = add(&store, 1, "key").await.id;
    seen.push(version().await);
    let new = key(&store, 2, "new", None).await.key;
    store.tenants().replace_key(&key_id, at(5_000), new).await.expect("replaced");
    seen.push(version().await);
    store.tenants().revoke_key(&key_id, at(1)).await.expect("revoked");
    seen.push(version().await);
    store.erasures().erase(Erasure::Tenant(tenant("acme"))).await.expect("erased");
    seen.push(version().await);
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    Talk::new(&store).exchange("Is this a change?", "Not of a tenant.").await;
    assert_eq!(version().await, *seen.last().expect("seen"));
    assert_eq!(register(&store).await.version, version().await);
}

/// B4: sessions without a TTL of their own have their tenant's, those that are there and those that come.
pub async fn sessions_follow_their_tenants_ttl(store: Arc<dyn Store>) {
    let day = Ttl::of(Period::hours(24));
    let before = talk(&store, "acme", "ann");
    before.add(vec![draft("old?", "yes")]).await;
    let own = talk(&store, "acme", "bob");
    own.create(SessionSeed { ttl: Some(Ttl::NEVER), ..SessionSeed::default() }).await;
    own.add(vec![draft("kept?", "yes")]).await;
    let other = talk(&store, "globex", "ann");
    other.add(vec![draft("other?", "yes")]).await;

    create(&store, "acme", settings(json!({"ttl": "24h"}))).await;
    let after = talk(&store, "acme", "ann");
    after.add(vec![draft("new?", "yes")]).await;
    let ttl = async |talk: &Talk| store.session(&talk.scope, talk.session).await.expect("read").and_then(|s| s.ttl);
    assert_eq!((ttl(&before).await, ttl(&after).await), (Some(day), Some(day)));
    assert_eq!((ttl(&own).await, ttl(&other).await), (Some(Ttl::NEVER), None));

    // Taken away, the server's counts again; given back, everything of the tenant goes but what has its own.
    store.tenants().update(&tenant("acme"), TenantSettings::default(), at(1)).await.expect("changed");
    assert_eq!((ttl(&before).await, ttl(&after).await, ttl(&own).await), (None, None, Some(Ttl::NEVER)));
    store.tenants().update(&tenant("acme"), settings(json!({"ttl": "24h"})), at(1)).await.expect("changed");
    let now = Timestamp::now().saturating_add(SignedDuration::from_hours(200_000)).expect("a time");
    let expired = store.expire(Expiry { now, server_ttl: Ttl::NEVER, turns_max: 100 }).await.expect("expired");
    assert_eq!((expired.sessions, expired.turns), (2, 2));
    assert!(ttl(&own).await.is_some() && store.session(&other.scope, other.session).await.expect("read").is_some());
}

/// An erased tenant is gone, with its keys; the others are not touched.
pub async fn an_erased_tenant_leaves_nothing(store: Arc<dyn Store>) {
    create(&store, "acme", TenantSettings::default()).await;
    add(&store, 1, "theirs").await;
    let talks: Vec<Talk> = ["ann", "bob", "ann"].map(|user| talk(&store, "acme", user)).into();
    for talk in &talks {
        talk.add(vec![draft("who?", "we"), draft("and?", "so")]).await;
    }
    let other = talk(&store, "globex", "ann");
    other.add(vec![draft("who?", "they")]).await;
    let erase = async || store.erasures().erase(Erasure::Tenant(tenant("acme"))).await.expect("erased");
    let counts = erase().await.expect("it is there").counts;
    assert_eq!((counts.sessions, counts.turns, counts.keys), (3, 6, 1));
    assert_eq!(erase().await, None, "once more there is nothing");
    for talk in &talks {
        assert_eq!(store.session(&talk.scope, talk.session).await.expect("read"), None);
    }
    let left = register(&store).await;
    assert_eq!((left.tenants.len(), left.keys.len()), (0, 0));
    assert_eq!(store.tenants().usage(&tenant("globex"), true).await.expect("counted").turns, 1);
}

/// What a tenant has is counted over all its users, and over nobody else's.
pub async fn a_tenants_usage_is_counted(store: Arc<dyn Store>) {
    let usage = async |with_bytes| store.tenants().usage(&tenant("acme"), with_bytes).await.expect("counted");
    assert_eq!(usage(true).await, Usage::default());
    talk(&store, "acme", "ann").add(vec![draft("12345", "1234567890"), draft("1", "2")]).await;
    talk(&store, "acme", "bob").add(vec![draft("x", "y")]).await;
    talk(&store, "globex", "ann").add(vec![draft("not", "counted")]).await;
    let counted = usage(true).await;
    assert_eq!((counted.sessions, counted.turns), (2, 3));
    assert!(counted.bytes >= 19, "{}", counted.bytes);
    assert_eq!(usage(false).await, Usage { bytes: 0, ..counted });
    let ann = Scope::new(tenant("acme"), User::parse("ann").expect("a name"));
    assert_eq!(store.stats(&ann).await.expect("counted").turns, 2);
}
