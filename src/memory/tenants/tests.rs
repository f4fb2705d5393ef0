//! Who is known, for how long that is believed, and how much each may use.

use super::*;
use crate::clock::ManualClock;
use crate::id::CountedIds;
use crate::memory::Memory;
use crate::scope::{Scope, User};
use crate::session::{SessionSeed, TurnDraft};
use crate::store::Sqlite;
use crate::tenant::{KeyDraft, NewKey, Right, TenantSettings};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// Two memories over one store, as two processes would share one, and the clock that both look at.
struct Scene {
    here: Memory,
    there: Memory,
    store: Arc<Sqlite>,
    clock: Arc<ManualClock>,
}

fn memory(store: &Arc<Sqlite>, clock: &Arc<ManualClock>, settings: MemorySettings) -> Memory {
    let parts = Parts::builtin(Arc::clone(store) as _, Arc::clone(clock) as _);
    Memory::new(parts, settings)
}

fn scene(limits: Limits) -> Scene {
    let clock = Arc::new(ManualClock::at("2026-01-01T12:00:00Z".parse().expect("a time")));
    let store = Arc::new(Sqlite::temporary(Arc::clone(&clock) as _).expect("a store"));
    let settings = MemorySettings { limits, ..MemorySettings::default() };
    Scene { here: memory(&store, &clock, settings.clone()), there: memory(&store, &clock, settings), store, clock }
}

impl Scene {
    fn pass(&self, millis: i64) {
        self.clock.advance(SignedDuration::from_millis(millis));
    }

    async fn key(&self) -> NewKey {
        let draft = KeyDraft {
            name: String::new(),
            tenant: None,
            user: None,
            rights: [Right::Read].into_iter().collect(),
            trust_identity: false,
            expires_at: None,
        };
        self.here.create_key(draft).await.expect("a key")
    }

    async fn shown(&self, memory: &Memory, text: &str) -> Shown {
        memory.tenants().roll().await.expect("a roll").look_at(text, self.clock.now())
    }
}

fn acme() -> Tenant {
    Tenant::parse("acme").expect("a name")
}

async fn create(memory: &Memory, settings: Value) {
    memory.create_tenant(acme(), settings.as_object().expect("an object")).await.expect("a tenant");
}

/// What is revoked in one process opens nothing in another a second later, and here not even that long.
#[tokio::test]
async fn a_revoked_key_opens_nothing_anywhere() {
    let scene = scene(Limits::default());
    assert_eq!(scene.shown(&scene.there, "rk_000000000000_1").await, Shown::Unknown);
    let NewKey { key, text } = scene.key().await;
    assert_eq!(scene.shown(&scene.here, &text).await, Shown::Good(Box::new(key.clone())));
    assert_eq!(scene.shown(&scene.there, &text).await, Shown::Unknown, "not heard of yet");
    scene.pass(1_000);
    assert_eq!(scene.shown(&scene.there, &text).await, Shown::Good(Box::new(key.clone())));

    scene.here.revoke_key(&key.id).await.expect("revoked");
    assert_eq!(scene.shown(&scene.here, &text).await, Shown::Revoked);
    scene.pass(1_000);
    assert_eq!(scene.shown(&scene.there, &text).await, Shown::Revoked);
}

/// A key that takes another's place: both are good for a while, then one.
#[tokio::test]
async fn two_keys_overlap_when_one_is_rotated() {
    let scene = scene(Limits::default());
    let old = scene.key().await;
    let new = scene.here.rotate_key(&old.key.id, SignedDuration::from_secs(60)).await.expect("rotated");
    let good = async |text: &str| matches!(scene.shown(&scene.here, text).await, Shown::Good(_));
    assert!(good(&old.text).await && good(&new.text).await);
    scene.pass(61_000);
    assert_eq!(scene.shown(&scene.here, &old.text).await, Shown::Expired);
    assert!(good(&new.text).await);
    assert!(scene.here.rotate_key(&old.key.id, SignedDuration::ZERO).await.is_err(), "it has ended");
}

/// DESIGN 8: keys are believed for a while when the store does not answer, and not for ever.
#[tokio::test]
async fn keys_outlive_a_store_that_fails_for_a_while() {
    let scene = scene(Limits::default());
    let NewKey { key, text } = scene.key().await;
    scene.store.close().await.expect("closes");
    scene.pass(10_000);
    assert_eq!(scene.shown(&scene.here, &text).await, Shown::Good(Box::new(key)));
    assert!(scene.there.tenants().roll().await.is_err(), "who never read them believes nothing");
    scene.pass(15 * 60_000);
    assert!(scene.here.tenants().roll().await.is_err());
}

/// Wrong secrets, unknown ids and what is no key at all are the same.
#[tokio::test]
async fn only_the_whole_key_fits() {
    let scene = scene(Limits::default());
    let NewKey { text, .. } = scene.key().await;
    let unknown = format!("rk_ffffffffffff{}", &text[15..]);
    for wrong in [&text[..text.len() - 1], &format!("{text}x"), &unknown, "rk_", "", "sk-something"] {
        assert_eq!(scene.shown(&scene.here, wrong).await, Shown::Unknown, "{wrong}");
    }
}

/// What a tenant has of its own counts for it alone, at once.
#[tokio::test]
async fn a_tenant_is_served_as_its_settings_say() {
    let scene = scene(Limits { requests_per_minute: 7, ..Limits::default() });
    let own = json!({"context_messages": 2, "model": "small", "mode": "passive", "recall_tokens": 50, "language": "nl",
                     "time_zone": "+02:00", "sessions_max": 3});
    create(&scene.here, own).await;
    let theirs = scene.here.of(&acme());
    let settings = theirs.settings();
    assert_eq!((settings.context_messages, settings.recall.tokens_max, theirs.model_name()), (2, 50, "small"));
    assert_eq!((settings.limits.sessions_max, settings.limits.requests_per_minute), (3, 7));
    assert_eq!(theirs.templates.choose(None, "What is this?").language, "nl");
    let ours = scene.here.of(&Tenant::default());
    assert_eq!((ours.settings().context_messages, ours.settings().limits.sessions_max), (10, 0));

    for (wrong, name) in [
        (json!({"language": "tlh"}), "language"),
        (json!({"time_zone": "Mars/Olympus"}), "time_zone"),
        (json!({"answer_tokens": 9_000}), "answer_tokens"),
    ] {
        let error =
            scene.here.change_tenant(&acme(), wrong.as_object().expect("an object")).await.expect_err("refused");
        assert!(error.to_string().starts_with(&format!("`{name}` is not valid")), "{error}");
    }
    assert_eq!(scene.here.tenant(&acme()).await.expect("there").0.settings.context_messages, Some(2));
}

/// Requests and tokens are counted for each tenant apart.
#[tokio::test]
async fn rates_are_a_tenants_own() {
    let scene = scene(Limits::default());
    create(&scene.here, json!({"requests_per_minute": 2, "tokens_per_day": 100})).await;
    let desk = scene.here.tenants();
    let taken: Vec<bool> = (0..3).map(|_| desk.admit_request(&acme()).is_ok()).collect();
    assert_eq!(taken, [true, true, false]);
    assert!((0..100).all(|_| desk.admit_request(&Tenant::default()).is_ok()));
    assert_eq!(desk.admit_request(&acme()).map_err(|over| over.seconds()), Err(30));
    scene.pass(30_000);
    assert!(desk.admit_request(&acme()).is_ok());

    desk.charge(&acme(), Some(60), 0);
    assert!(desk.admit_question(&acme()).is_ok());
    desk.charge(&acme(), None, 400);
    let over = desk.admit_question(&acme()).expect_err("60 by count and 100 by length");
    assert_eq!((over.limit, over.most), (Limit::Tokens, 100));
    assert!(desk.admit_question(&Tenant::default()).is_ok());
}

/// Sessions, turns and bytes are counted in the store, and what is admitted since.
#[tokio::test]
async fn quotas_hold_and_what_goes_makes_room() {
    let scene = scene(Limits::default());
    create(&scene.here, json!({"sessions_max": 2, "turns_max": 4})).await;
    let desk = scene.here.tenants();
    let limit = |admitted: Result<(), OverLimit>| admitted.err().map(|over| over.limit);
    assert_eq!(limit(desk.admit_turns(&acme(), true, 1).await), None);
    assert_eq!(limit(desk.admit_turns(&acme(), true, 1).await), None);
    assert_eq!(limit(desk.admit_turns(&acme(), true, 1).await), Some(Limit::Sessions), "admitted, not yet stored");
    assert_eq!(limit(desk.admit_turns(&acme(), false, 2).await), None);
    assert_eq!(limit(desk.admit_turns(&acme(), false, 1).await), Some(Limit::Turns));

    // Nothing was stored after all, which the next count finds.
    scene.pass(1_000);
    assert_eq!(limit(desk.admit_turns(&acme(), true, 1).await), None);
}

/// Bytes that are stored count, whoever stored them.
#[tokio::test]
async fn a_full_tenant_stores_no_more() {
    let scene = scene(Limits::default());
    create(&scene.here, json!({"storage_bytes_max": 500})).await;
    let scope = Scope::new(acme(), User::anonymous());
    let ids = CountedIds::default();
    let said = |role, text: String| crate::message::Message::new(role, text, scene.clock.now());
    use crate::message::Role::{Assistant, User as Asker};
    let messages = vec![said(Asker, "long ".repeat(100)), said(Assistant, "yes".into())];
    let turn = TurnDraft { id: ids.turn(scene.clock.now()), messages, metadata: Default::default(), created_at: None };
    let seed = Some(SessionSeed::default());
    assert!(scene.here.tenants().admit_turns(&acme(), true, 1).await.is_ok());
    scene.store.add_turns(&scope, ids.session(), seed, vec![turn]).await.expect("stored");
    scene.pass(5_000);
    let over = scene.here.tenants().admit_turns(&acme(), true, 1).await.expect_err("full");
    assert_eq!((over.limit, over.most), (Limit::Bytes, 500));
}

/// A tenant whose settings do not fit any more, since the server's changed, is served as the others are.
#[tokio::test]
async fn settings_that_do_not_fit_any_more_cost_only_themselves() {
    let scene = scene(Limits::default());
    create(&scene.here, json!({"answer_tokens": 4_000})).await;
    let smaller = MemorySettings { model_tokens_max: 2_048, ..MemorySettings::default() };
    let restarted = memory(&scene.store, &scene.clock, smaller);
    restarted.tenants().roll().await.expect("a roll");
    assert_eq!(restarted.of(&acme()).settings().answer_tokens, MemorySettings::default().answer_tokens);
    let kept = TenantSettings { answer_tokens: Some(4_000), ..TenantSettings::default() };
    assert_eq!(restarted.tenant(&acme()).await.expect("there").0.settings, kept);
}
