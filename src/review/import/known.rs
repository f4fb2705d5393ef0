//! What is known of users, and what a tenant knows: names one by one, a document when all of it has come.

use super::Importer;
use crate::id::DocumentId;
use crate::knowledge::{Document, Passage, clean_name};
use crate::review::ReviewError;
use crate::scope::{Scope, Whose};
use crate::store::{DocumentArrival, StoreError};
use crate::takeout::{DocumentRecord, FactRecord, PartRecord};

/// A document of which more may come.
pub(super) struct Gathered {
    /// The line it began with.
    number: u64,
    record: DocumentRecord,
    /// It is passed over, with all that belongs to it.
    refused: bool,
}

impl Importer {
    pub(super) async fn settle_facts(
        &mut self,
        scope: &Scope,
        facts: Vec<(u64, FactRecord)>,
    ) -> Result<(), ReviewError> {
        let memory = self.memory.clone();
        let takeout = memory.parts.store.takeout();
        let all = facts.iter().map(|(_, record)| record.clone()).collect();
        match takeout.take_in_facts(scope, all, self.dry).await {
            // Something in it is refused: whatever is not is taken in all the same.
            Err(StoreError::Refused(_)) => {
                for (number, record) in facts {
                    match takeout.take_in_facts(scope, vec![record], self.dry).await {
                        Ok(taken) => self.report.facts += taken,
                        Err(StoreError::Refused(reason)) => self.report.refuse(number, reason),
                        Err(error) => return self.memory.told(scope, None, "import", Err(error)),
                    }
                }
            }
            taken => self.report.facts += self.memory.told(scope, None, "import", taken)?,
        }
        Ok(())
    }

    pub(super) async fn document(&mut self, number: u64, document: Document) -> Result<(), ReviewError> {
        self.close().await?;
        self.settle().await?;
        self.shelve().await?;
        let wrong = self.wrong_with(&document);
        let record = DocumentRecord { document, original: Vec::new(), passages: Vec::new() };
        self.document = Some(Gathered { number, record, refused: wrong.is_some() });
        wrong.map_or(Ok(()), |reason| self.refused(number, &reason))
    }

    fn wrong_with(&self, document: &Document) -> Option<String> {
        let most = self.memory.settings.knowledge.bytes_max as u64;
        match () {
            () if !matches!(self.whose, Whose::Everyone(_)) => {
                Some("documents are a tenant's: import them for everyone".to_owned())
            }
            () if clean_name(&document.name).is_none() => Some("its name cannot be that of a document".to_owned()),
            () if document.bytes > most => Some(format!("its file has more than {most} bytes (`document_bytes_max`)")),
            () => None,
        }
    }

    /// The document that something belongs to.
    fn gathered(&mut self, id: DocumentId) -> Option<&mut Gathered> {
        self.document.as_mut().filter(|gathered| gathered.record.document.id == id)
    }

    pub(super) fn passage(&mut self, number: u64, id: DocumentId, passage: Passage) -> Result<(), ReviewError> {
        let Some(Gathered { record, refused, .. }) = self.gathered(id) else { return self.without_document(number) };
        let next = record.passages.len() as u64 + 1;
        match () {
            () if *refused => Ok(()),
            () if next > record.document.passages || u64::from(passage.number) != next => {
                self.refused(number, "it is not the next passage of its document")
            }
            () => {
                record.passages.push(passage);
                Ok(())
            }
        }
    }

    pub(super) fn part(&mut self, number: u64, part: PartRecord) -> Result<(), ReviewError> {
        let Some(Gathered { record, refused, .. }) = self.gathered(part.document) else {
            return self.without_document(number);
        };
        let have = record.original.len() as u64;
        match () {
            () if *refused => Ok(()),
            () if part.at != have || have + part.bytes.len() as u64 > record.document.bytes => {
                self.refused(number, "it is not the next part of its file")
            }
            () => {
                record.original.extend(part.bytes);
                Ok(())
            }
        }
    }

    fn without_document(&mut self, number: u64) -> Result<(), ReviewError> {
        self.refused(number, "its document does not stand before it")
    }

    /// Takes in the document that was gathered, if all of it has come.
    pub(super) async fn shelve(&mut self) -> Result<(), ReviewError> {
        let (Some(gathered), Whose::Everyone(_)) = (self.document.take(), &self.whose) else { return Ok(()) };
        let Gathered { number, record, refused: false } = gathered else { return Ok(()) };
        let (parts, tenant) = (&self.memory.parts, self.whose.shared());
        let whole = (record.original.len() as u64, record.passages.len() as u64);
        if whole != (record.document.bytes, record.document.passages) {
            return self.refused(number, "its file or its passages are not all there");
        }
        if !self.dry {
            self.memory.tenants.admit_bytes(tenant.tenant(), whole.0).await?;
        }
        let most = self.memory.settings.knowledge.bounds;
        let arrival = DocumentArrival { record, else_id: parts.ids.document(), most };
        match parts.store.takeout().take_in_document(&tenant, arrival, self.dry).await {
            Ok(new) => self.report.documents += u64::from(new),
            Err(StoreError::Refused(reason)) => return self.refused(number, &reason),
            Err(error) => return Err(error.into()),
        }
        if !self.dry {
            self.memory.recall.follow_knowledge(&tenant);
        }
        Ok(())
    }
}
