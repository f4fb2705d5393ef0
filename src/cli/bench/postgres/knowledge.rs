//! `recalld bench knowledge`: what a large tenant knows, searched by PostgreSQL beside all of it held in memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::Times;
use crate::cli::bench::chatter::Chatter;
use crate::cli::bench::knowledge::KnowledgeArgs;
use crate::cli::bench::recall::stage::parts;
use crate::cli::bench::store::in_words;
use crate::cli::bench::table::{Row, Table, machine};
use crate::clock::SystemClock;
use crate::id::{Ids, RandomIds};
use crate::knowledge::{Kind, Passage, PassageId};
use crate::memory::{Memory, MemorySettings};
use crate::model::embed::{Builtin, Embedder};
use crate::recall::FoundPassage;
use crate::scope::{Tenant, TenantScope};
use crate::store::{KnowledgeBounds, NewDocument, Postgres, PostgresSettings, Store};

/// Passages of a document, and documents that are kept at one time.
const DOCUMENT_PASSAGES: usize = 100;
/// How many of the best are compared.
const BEST: usize = 10;

/// Two stores on the same tables: one searches, one leaves that to memory.
struct Sides {
    searching: Arc<Postgres>,
    holding: Arc<Postgres>,
}

pub(in crate::cli::bench) async fn run(args: &KnowledgeArgs) -> anyhow::Result<Table> {
    let Sides { searching, holding } = sides(&args.url).await?;
    let embedder = Arc::new(Builtin::default());
    let tenant = TenantScope::new(Tenant::default());
    let texts = fill(&searching, &embedder, &tenant, args.passages).await?;
    let memory = |store: &Arc<Postgres>| {
        let parts = parts(Arc::clone(store) as Arc<dyn Store>, Arc::new(SystemClock::default()), embedder.clone());
        Memory::new(parts, MemorySettings::default())
    };
    let (by_database, in_memory) = (memory(&searching), memory(&holding));
    let started = Instant::now();
    by_database.embed_knowledge().await?;
    let shelved = started.elapsed();
    searching.analyse().await?;
    let mut chatter = Chatter::new(11);
    let questions: Vec<String> = texts.iter().take(args.questions).map(|text| chatter.question(text)).collect();
    let (mut near, mut both) = (0.0, 0.0);
    let (mut database_times, mut memory_times) = (Vec::new(), Vec::new());
    // The first question loads what is held in memory.
    in_memory.recall_desk().search_knowledge(&tenant, &questions[0], BEST).await?;
    for question in &questions {
        let started = Instant::now();
        let found = by_database.recall_desk().search_knowledge(&tenant, question, BEST).await?;
        database_times.push(started.elapsed());
        let started = Instant::now();
        let exact = in_memory.recall_desk().search_knowledge(&tenant, question, BEST).await?;
        memory_times.push(started.elapsed());
        both += overlap(&ids(&found), &ids(&exact));
        let vector = embedder.embed(std::slice::from_ref(question)).await?.remove(0);
        near +=
            overlap(&searching.nearest(&vector, BEST, true).await?, &searching.nearest(&vector, BEST, false).await?);
    }
    let asked = questions.len() as f64;
    let (database, memory) = (Times::of(database_times), Times::of(memory_times));
    let all = in_words(args.passages);
    let recall = |what: &str, share: f64, must: Option<&str>| Row {
        what: format!("{what}, {all} passages, {} questions: of the best {BEST}", questions.len()),
        measured: format!("{:.3}", share / asked),
        beside: None,
        ratio: None,
        must: must.map(str::to_owned),
        goal: None,
    };
    let rows = vec![
        recall("nearest by HNSW against an exact scan", near, Some("0.98")),
        recall("words and meaning by the database against all in memory", both, Some("0.98")),
        Row {
            what: format!("a search of {all} passages, p50 (p99)"),
            measured: database.told(),
            beside: Some(format!("{} (held in memory)", memory.told())),
            ratio: None,
            must: None,
            goal: None,
        },
        Row {
            what: "making passages ready to be searched".into(),
            measured: format!("{:.0} a second", args.passages as f64 / shelved.as_secs_f64()),
            beside: None,
            ratio: None,
            must: None,
            goal: None,
        },
    ];
    Ok(Table { machine: machine(), rows })
}

async fn sides(url: &str) -> anyhow::Result<Sides> {
    let clock = || Arc::new(SystemClock::default());
    let mut small = PostgresSettings::new(url);
    small.passages_held_max = 0;
    let searching = Arc::new(Postgres::passing(small, clock()).await.context("cannot make tables there")?);
    anyhow::ensure!(searching.searches(), "pgvector is not installed there; `CREATE EXTENSION vector`");
    let holding = Arc::new(searching.beside(clock()).await?);
    Ok(Sides { searching, holding })
}

/// Keeps made-up documents with their vectors; answers what some passages say.
async fn fill(
    store: &Postgres,
    embedder: &Builtin,
    tenant: &TenantScope,
    passages: usize,
) -> anyhow::Result<Vec<String>> {
    let style = ProgressStyle::with_template("filling {bar:40} {human_pos} of {human_len} passages, {eta} left")?;
    let progress = ProgressBar::new(passages as u64).with_style(style);
    let (mut chatter, mut some) = (Chatter::new(7), Vec::new());
    let bounds = KnowledgeBounds { documents: usize::MAX, passages: usize::MAX };
    for n in 0..passages.div_ceil(DOCUMENT_PASSAGES) {
        let texts: Vec<String> =
            (0..DOCUMENT_PASSAGES.min(passages - n * DOCUMENT_PASSAGES)).map(|_| chatter.reply()).collect();
        let vectors = embedder.embed(&texts).await?;
        some.extend(texts.first().cloned());
        let passages = (1..).zip(&texts).map(|(number, text)| Passage {
            number,
            heading: String::new(),
            place: String::new(),
            text: text.clone(),
            tokens: 80,
        });
        let document = NewDocument {
            id: RandomIds.document(),
            name: format!("document {n}"),
            title: String::new(),
            kind: Kind::Text,
            original: n.to_string().into_bytes(),
            passages: passages.collect(),
            vectors: Some((embedder.id().as_str().to_owned(), vectors)),
        };
        store.knowledge().keep(tenant, vec![document], bounds).await?;
        progress.inc(texts.len() as u64);
    }
    progress.finish_and_clear();
    Ok(some)
}

fn ids(found: &[FoundPassage]) -> Vec<PassageId> {
    found.iter().map(|found| found.citation.passage).collect()
}

/// Which share of what is exact was found.
fn overlap<T: std::hash::Hash + Eq>(found: &[T], exact: &[T]) -> f64 {
    let found: HashSet<&T> = found.iter().collect();
    exact.iter().filter(|one| found.contains(one)).count() as f64 / exact.len().max(1) as f64
}
