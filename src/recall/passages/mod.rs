//! What a tenant knows, in memory: finding the passages that are about a question.
//!
//! A document is held as words and vectors (`index`), a tenant as its documents. Nothing is asked of the store but whether anything
//! changed, and then only what changed is read; the texts of the few passages that were found are fetched at the end. A store that searches
//! by itself what is too much for memory is asked instead, and the same ranking follows.
//!
//! Reading order: the desk here, `index`, `tell` (passages as asides).
//!
//! **Invariant:** a tenant that knows nothing costs one look at one row.

mod index;
mod tell;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::index::DocumentIndex;
use super::RecallError;
use crate::kernel::quantise;
use crate::knowledge::{Citation, Passage, PassageId, Ranked, Seen, asked_terms, rank, rank_among};
use crate::language::Tongue;
use crate::model::embed::Embedder;
use crate::scope::{Tenant, TenantScope};
use crate::store::{AskedPassages, KnowledgeOutline, SeenPassages, SeenPlace, Store};
use crate::topic::Thresholds;

/// What is looked for.
pub(crate) struct SoughtPassages<'a> {
    /// The question's words, as they are embedded.
    pub(crate) text: &'a str,
    pub(crate) tongue: Tongue,
    pub(crate) vector: Option<&'a [f32]>,
    /// Most passages.
    pub(crate) limit: usize,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundPassage {
    /// The passage.
    pub passage: Passage,
    /// Where it is from, and how near it is.
    pub citation: Citation,
    /// Its score; only comparable within one answer.
    pub score: f32,
    /// Whether it has anything to do with the question.
    pub related: bool,
    /// What each signal contributed.
    pub signals: Vec<(&'static str, f32)>,
}

/// A tenant's documents, as they were at one version.
#[derive(Debug, Default)]
struct TenantShelf {
    version: u64,
    documents: Vec<Arc<DocumentIndex>>,
}

impl TenantShelf {
    fn bytes(&self) -> usize {
        self.documents.iter().map(|document| document.bytes()).sum()
    }

    /// What is seen of every passage, in the order of the documents.
    fn look(&self, sought: &SoughtPassages<'_>) -> Vec<Seen> {
        let asked = asked_terms(sought.text, sought.tongue);
        let statistics = index::Statistics::of(&self.documents, &asked);
        let vector = sought.vector.and_then(quantise);
        self.documents.iter().flat_map(|document| document.look(&asked, &statistics, vector.as_ref())).collect()
    }

    /// Where a passage is.
    fn place(&self, mut at: usize) -> Option<SeenPlace> {
        self.documents.iter().find_map(|document| match at.checked_sub(document.passages()) {
            Some(further) => {
                at = further;
                None
            }
            None => Some(SeenPlace {
                document: document.id,
                version: document.version,
                number: at as u32 + 1,
                name: document.name.clone(),
                title: document.title.clone(),
            }),
        })
    }
}

/// The best passages, what was seen of all of them, and where the best are.
struct Best {
    ranked: Vec<Ranked>,
    seen: Vec<Seen>,
    places: Vec<SeenPlace>,
}

/// Holds what tenants know, the most recently used.
pub(super) struct Passages {
    store: Arc<dyn Store>,
    embedder: Arc<dyn Embedder>,
    bytes_max: usize,
    shelves: Mutex<HashMap<Tenant, Held>>,
}

#[derive(Default)]
struct Held {
    shelf: Arc<TenantShelf>,
    /// One reads what changed, the others wait for it.
    loading: Arc<tokio::sync::Mutex<()>>,
    used: u64,
}

impl Passages {
    pub(super) fn new(store: Arc<dyn Store>, embedder: Arc<dyn Embedder>, bytes_max: usize) -> Self {
        Self { store, embedder, bytes_max, shelves: Mutex::default() }
    }

    /// The passages that are nearest to a question, best first.
    pub(super) async fn find(
        self: &Arc<Self>,
        tenant: &TenantScope,
        sought: &SoughtPassages<'_>,
    ) -> Result<Vec<FoundPassage>, RecallError> {
        let thresholds = Thresholds::of(self.embedder.id(), self.embedder.near());
        let best = match self.searched(tenant, sought).await? {
            Some(SeenPassages { seen, places, all }) => {
                let ranked = rank_among(&seen, &all, thresholds, sought.limit);
                Best { places: ranked.iter().map(|ranked| places[ranked.at].clone()).collect(), ranked, seen }
            }
            None => {
                let Some(shelf) = self.shelf(tenant).await? else { return Ok(Vec::new()) };
                let seen = shelf.look(sought);
                let ranked = rank(&seen, thresholds, sought.limit);
                Best { places: ranked.iter().filter_map(|ranked| shelf.place(ranked.at)).collect(), ranked, seen }
            }
        };
        self.with_texts(tenant, best).await
    }

    /// What a store saw that searches by itself what this tenant knows.
    async fn searched(
        &self,
        tenant: &TenantScope,
        sought: &SoughtPassages<'_>,
    ) -> Result<Option<SeenPassages>, RecallError> {
        let asked = AskedPassages {
            terms: asked_terms(sought.text, sought.tongue),
            vector: sought.vector.map(<[f32]>::to_vec),
            embedder: self.embedder.id().as_str().to_owned(),
        };
        Ok(self.store.knowledge().search(tenant, asked).await?)
    }

    /// Fetches what the best passages say.
    async fn with_texts(&self, tenant: &TenantScope, best: Best) -> Result<Vec<FoundPassage>, RecallError> {
        let wanted: Vec<_> = best.places.iter().map(|place| (place.document, place.number)).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut texts: HashMap<_, _> = self
            .store
            .knowledge()
            .passages_by_number(tenant, &wanted)
            .await?
            .into_iter()
            .map(|(document, version, passage)| ((document, passage.number), (version, passage)))
            .collect();
        let found = best.ranked.into_iter().zip(best.places).filter_map(|(ranked, place)| {
            let SeenPlace { document, version, number, name: source, title } = place;
            // A document that was replaced meanwhile says something else under this number.
            let (_, passage) = texts.remove(&(document, number)).filter(|(found, _)| *found == version)?;
            let id = PassageId { document, version, number };
            let similarity = best.seen[ranked.at].similarity.unwrap_or(0.0).clamp(0.0, 1.0);
            let citation = Citation { source, passage: id, similarity, title };
            let (score, related, signals) = (ranked.score, ranked.related, ranked.signals);
            Some(FoundPassage { passage, citation, score, related, signals })
        });
        Ok(found.collect())
    }

    /// Reads what changed in a tenant's knowledge, where it is held here.
    pub(super) async fn follow(self: &Arc<Self>, tenant: &TenantScope) -> Result<(), RecallError> {
        let nothing = SoughtPassages { text: "", tongue: Tongue::English, vector: None, limit: 0 };
        match self.searched(tenant, &nothing).await? {
            Some(_) => {
                self.shelves().remove(tenant.tenant());
                Ok(())
            }
            None => self.shelf(tenant).await.map(drop),
        }
    }

    /// Lets what a tenant knows go from memory.
    pub(super) fn let_go(&self, tenant: &Tenant) {
        self.shelves().remove(tenant);
    }

    /// What a tenant knows, true to the store as of now; `None` for nothing.
    async fn shelf(self: &Arc<Self>, tenant: &TenantScope) -> Result<Option<Arc<TenantShelf>>, RecallError> {
        let version = self.store.knowledge().version(tenant).await?;
        if version == 0 {
            self.shelves().remove(tenant.tenant());
            return Ok(None);
        }
        let (shelf, loading) = self.held(tenant.tenant());
        if shelf.version == version {
            return Ok(Some(shelf));
        }
        let (desk, tenant) = (Arc::clone(self), tenant.clone());
        // A load that outlasts its request goes on for the next one.
        let load = tokio::spawn(async move {
            let _one_at_a_time = loading.lock().await;
            let (shelf, _) = desk.held(tenant.tenant());
            if shelf.version >= version { Ok(shelf) } else { desk.load(&tenant, &shelf).await }
        });
        load.await.map_err(|_| RecallError::Interrupted)?.map(Some)
    }

    /// Reads what changed since a shelf was read.
    async fn load(&self, tenant: &TenantScope, before: &TenantShelf) -> Result<Arc<TenantShelf>, RecallError> {
        let KnowledgeOutline { version, documents } = self.store.knowledge().outline(tenant).await?;
        let known: HashMap<_, _> =
            before.documents.iter().map(|document| ((document.id, document.mark), document)).collect();
        let mut shelf = TenantShelf { version, documents: Vec::with_capacity(documents.len()) };
        for (id, mark) in documents {
            if let Some(document) = known.get(&(id, mark)) {
                shelf.documents.push(Arc::clone(document));
                continue;
            }
            let held = self.store.knowledge().held_document(tenant, id, self.embedder.id().as_str()).await?;
            let Some(held) = held else { continue };
            let indexed = tokio::task::spawn_blocking(move || DocumentIndex::of(held)).await;
            shelf.documents.push(Arc::new(indexed.map_err(|_| RecallError::Interrupted)?));
        }
        let shelf = Arc::new(shelf);
        self.put(tenant.tenant(), &shelf);
        Ok(shelf)
    }

    fn shelves(&self) -> MutexGuard<'_, HashMap<Tenant, Held>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self, tenant: &Tenant) -> (Arc<TenantShelf>, Arc<tokio::sync::Mutex<()>>) {
        let mut shelves = self.shelves();
        let used = shelves.values().map(|held| held.used).max().unwrap_or(0) + 1;
        let held = shelves.entry(tenant.clone()).or_default();
        held.used = used;
        (Arc::clone(&held.shelf), Arc::clone(&held.loading))
    }

    /// Puts a shelf in its place, and lets those go that were not used for longest while all take too much.
    fn put(&self, tenant: &Tenant, shelf: &Arc<TenantShelf>) {
        let mut shelves = self.shelves();
        shelves.entry(tenant.clone()).or_default().shelf = Arc::clone(shelf);
        while shelves.len() > 1 && shelves.values().map(|held| held.shelf.bytes()).sum::<usize>() > self.bytes_max {
            let others = shelves.iter().filter(|(other, _)| *other != tenant);
            let Some(oldest) = others.min_by_key(|(_, held)| held.used).map(|(tenant, _)| tenant.clone()) else {
                return;
            };
            shelves.remove(&oldest);
        }
    }
}

#[cfg(all(test, feature = "postgres"))]
mod database_tests;
