//! Passages beside what was said: the few that are about the question, as asides.

use std::sync::Arc;

use super::{FoundPassage, Passages, SoughtPassages};
use crate::language::{Tongue, tongue};
use crate::recall::asides::{Decided, Looking};
use crate::recall::desk::Recall;
use crate::recall::{Aside, AsideSource, Fate, Layer, RecallError};
use crate::scope::{Scope, TenantScope};

/// Passages that are looked at for a question, best first, and most that are shown.
const CONSIDERED: usize = 12;
const SHOWN_MAX: usize = 4;

impl Recall {
    /// The passages of a tenant's knowledge that are nearest to a question, best first. It reads, whoever asks: a conversation
    /// that is kept nowhere can be told what its tenant knows, too.
    pub async fn search_knowledge(
        self: &Arc<Self>,
        tenant: &TenantScope,
        question: &str,
        limit: usize,
    ) -> Result<Vec<FoundPassage>, RecallError> {
        let vector = self.vector_of(question).await;
        let tongue = tongue(question, Tongue::English);
        let sought = SoughtPassages { text: question, tongue, vector: vector.as_deref(), limit };
        self.passages.find(tenant, &sought).await
    }

    /// What a tenant knows about a visitor's question: the few passages that are about it.
    pub(crate) async fn told_to_visitors(
        self: &Arc<Self>,
        tenant: &TenantScope,
        question: &str,
    ) -> Result<Vec<Aside>, RecallError> {
        let found = self.search_knowledge(tenant, question, CONSIDERED).await?;
        let decided = found.into_iter().enumerate().map(|(rank, found)| decided(rank, found));
        Ok(decided.filter(|(_, fate)| fate.is_none()).map(|(aside, _)| aside).collect())
    }

    /// Reads what was just added to a tenant's knowledge, so that the next question need not.
    pub fn follow_knowledge(&self, tenant: &TenantScope) {
        let (desk, tenant) = (Arc::clone(&self.passages), tenant.clone());
        // What fails here is tried again by the next question, which reports it.
        tokio::spawn(async move { desk.follow(&tenant).await });
    }

    /// What the tenant knows about a question. Where only what was said in a time is asked for, nothing: documents were not said.
    pub(in crate::recall) async fn passages(
        &self,
        scope: &Scope,
        looking: &Looking<'_>,
    ) -> Result<Vec<Decided>, RecallError> {
        let Looking { ask, plan, vectors, .. } = looking;
        if ask.from.is_some() || ask.to.is_some() {
            return Ok(Vec::new());
        }
        let vector = vectors.plain.as_deref();
        let sought = SoughtPassages { text: &plan.plain_text, tongue: plan.question.tongue, vector, limit: CONSIDERED };
        let found = Passages::find(&self.passages, &scope.shared(), &sought).await?;
        Ok(found.into_iter().enumerate().map(|(rank, found)| decided(rank, found)).collect())
    }
}

fn decided(rank: usize, found: FoundPassage) -> Decided {
    let fate = match () {
        () if !found.related => Some(Fate::Unrelated),
        () if rank >= SHOWN_MAX => Some(Fate::Surplus),
        () => None,
    };
    let FoundPassage { passage, citation, score, signals, .. } = found;
    let below = [citation.title.as_str(), &passage.heading, &passage.place];
    let place = below.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" › ");
    let aside = Aside {
        layer: Layer::Passages,
        source: AsideSource::Passage(citation),
        text: format!("[{place}] {}", passage.text).into(),
        worth: Layer::Passages.worth() / (rank + 1) as f32,
        score,
        signals,
    };
    (aside, fate)
}
