//! What a real PostgreSQL with pgvector finds, beside the ranking of everything in memory. Skipped where there is none.

#![allow(clippy::print_stdout, reason = "a test that is skipped or measures says so")]

use std::collections::HashSet;
use std::sync::Arc;

use super::{FoundPassage, Passages, SoughtPassages};
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds};
use crate::knowledge::{Kind, Passage};
use crate::language::Tongue;
use crate::model::embed::{Builtin, Embedder};
use crate::scope::{Tenant, TenantScope};
use crate::store::{KnowledgeBounds, NewDocument, Postgres, PostgresSettings, Store};

const DOCUMENTS: usize = 30;
const PASSAGES: u32 = 100;
const QUESTIONS: usize = 100;
const BEST: usize = 10;
/// The share of the best that must be found.
const RECALL_MIN: f64 = 0.98;

const THINGS: &str = "pump valve boiler filter sensor cable battery panel invoice contract warranty refund delivery warehouse \
    truck customer doctor patient nurse ward medicine dose kitchen oven recipe flour butter harbour ferry \
    ticket passport garden fence seed rose orchard bicycle wheel brake chain engine piston theatre actor \
    orchestra violin school teacher exam library novel printer toner keyboard router firewall password backup \
    server cloud river bridge tunnel railway platform glacier summit";
const DOINGS: &str = "replaces inspects cleans delays orders repairs measures paints sells returns stores heats cools opens \
    closes signs cancels loads tests updates";
/// Underscores stand for spaces.
const WAYS: &str = "quickly twice before_winter after_lunch by_hand in_the_cellar on_Monday without_a_permit for_free \
    at_night under_pressure with_care";

/// Sentences by chance, always the same ones.
struct Talk(u64);

impl Talk {
    fn one(&mut self, of: &str) -> String {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let words: Vec<&str> = of.split(' ').collect();
        words[(self.0 >> 33) as usize % words.len()].replace('_', " ")
    }

    fn sentence(&mut self) -> String {
        let (who, does, what, how) = (self.one(THINGS), self.one(DOINGS), self.one(THINGS), self.one(WAYS));
        format!("The {who} {does} the {what} {how}.")
    }

    fn passage(&mut self) -> String {
        (0..3).map(|_| self.sentence()).collect::<Vec<_>>().join(" ")
    }

    fn question(&mut self) -> String {
        format!("Which {} {} the {} {}?", self.one(THINGS), self.one(DOINGS), self.one(THINGS), self.one(WAYS))
    }
}

/// Two stores on the same tables: one searches, one leaves that to memory. `None` where there is no pgvector.
async fn stores() -> Option<(Arc<Postgres>, Arc<Postgres>)> {
    let Ok(url) = std::env::var("RECALLD_TEST_POSTGRES") else {
        println!("SKIPPED: RECALLD_TEST_POSTGRES is not set; `scripts/services start`");
        return None;
    };
    let clock = || Arc::new(SystemClock::default());
    let mut settings = PostgresSettings::new(&url);
    settings.passages_held_max = 0;
    let searching = Arc::new(Postgres::passing(settings, clock()).await.expect("a store in a new schema"));
    if !searching.searches() {
        println!("SKIPPED: that database has no pgvector");
        return None;
    }
    let holding = Arc::new(searching.beside(clock()).await.expect("another one on the same tables"));
    Some((searching, holding))
}

async fn fill(store: &Postgres, embedder: &Builtin, tenant: &TenantScope, seed: u64) {
    let mut talk = Talk(seed);
    for n in 0..DOCUMENTS {
        let texts: Vec<String> = (0..PASSAGES).map(|_| talk.passage()).collect();
        let vectors = embedder.embed(&texts).await.expect("vectors");
        let (heading, place, tokens) = (String::new(), String::new(), 30);
        let passages = (1..).zip(texts).map(|(number, text)| Passage {
            number,
            heading: heading.clone(),
            place: place.clone(),
            text,
            tokens,
        });
        let document = NewDocument {
            id: RandomIds.document(),
            name: format!("{} {n}", tenant.tenant()),
            title: String::new(),
            kind: Kind::Text,
            original: n.to_string().into_bytes(),
            passages: passages.collect(),
            vectors: Some((embedder.id().as_str().to_owned(), vectors)),
        };
        let bounds = KnowledgeBounds { documents: DOCUMENTS, passages: usize::MAX };
        store.knowledge().keep(tenant, vec![document], bounds).await.expect("kept");
    }
}

/// Which share of what is exact was found.
fn overlap(found: &[FoundPassage], exact: &[FoundPassage]) -> f64 {
    let found: HashSet<_> = found.iter().map(|found| found.citation.passage).collect();
    let there = exact.iter().filter(|exact| found.contains(&exact.citation.passage));
    there.count() as f64 / exact.len().max(1) as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_finds_what_memory_finds_and_nothing_of_other_tenants() {
    let Some((searching, holding)) = stores().await else { return };
    let embedder = Arc::new(Builtin::default());
    let tenants = ["acme", "other"].map(|name| TenantScope::new(Tenant::parse(name).expect("a tenant")));
    for (tenant, seed) in tenants.iter().zip([3, 5]) {
        fill(&searching, &embedder, tenant, seed).await;
    }
    while searching.knowledge().shelve(1_000).await.expect("made ready") > 0 {}
    searching.analyse().await.expect("looked at");
    let desk = |store: &Arc<Postgres>| Arc::new(Passages::new(Arc::clone(store) as _, embedder.clone(), usize::MAX));
    let (by_database, in_memory) = (desk(&searching), desk(&holding));
    let mut talk = Talk(7);
    let mut found_share = [0.0; 2];
    for _ in 0..QUESTIONS {
        let question = talk.question();
        let vector = embedder.embed(std::slice::from_ref(&question)).await.expect("a vector").remove(0);
        let sought = SoughtPassages { text: &question, tongue: Tongue::English, vector: Some(&vector), limit: BEST };
        for (tenant, share) in tenants.iter().zip(&mut found_share) {
            let found = by_database.find(tenant, &sought).await.expect("found");
            let exact = in_memory.find(tenant, &sought).await.expect("found");
            let own = |found: &FoundPassage| found.citation.source.starts_with(tenant.tenant().as_str());
            assert!(found.iter().all(own), "something of another tenant: {found:#?}");
            assert_eq!((found.len(), exact.len()), (BEST, BEST));
            *share += overlap(&found, &exact) / QUESTIONS as f64;
        }
    }
    println!("recall@{BEST} of {} passages: {found_share:?}", DOCUMENTS * PASSAGES as usize);
    assert!(found_share.iter().all(|share| *share >= RECALL_MIN), "recall@{BEST}: {found_share:?}");
}
