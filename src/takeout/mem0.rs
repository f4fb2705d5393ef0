//! Memories of mem0: a list of short texts with ids and dates, bare or under `results`. Each becomes a note in a conversation
//! of its own, marked as a memory of somewhere else.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde_json::{Map, Value};

use super::stream::{Element, elements};
use super::thread::{Next, Thread};
use super::value::{clean, copied, text, time};
use super::{Around, Format, Found, ReadError, Taker};
use crate::message::{Message, Role};

/// Most people whose notes are kept apart at one time.
const PEOPLE_MAX: usize = 10_000;

/// Reads memories; those of different people are different conversations.
pub(super) fn read(input: impl BufRead, around: &Around, taker: Taker<'_>) -> Result<(), ReadError> {
    let mut people: BTreeMap<String, Thread> = BTreeMap::new();
    elements(input, &["results", "memories"], &mut |element| {
        let Element { at, value, .. } = element;
        let Some(memory) = text(value.get("memory").or_else(|| value.get("text"))) else {
            return taker(Found::Bad(at, "it has no `memory`".into()));
        };
        let Some(id) = text(value.get("id")) else { return taker(Found::Bad(at, "it has no id".into())) };
        let dated = time(value.get("created_at")).or_else(|| time(value.get("updated_at")));
        let said_at = dated.unwrap_or(around.undated);
        let whose =
            ["user_id", "agent_id", "run_id"].iter().find_map(|name| text(value.get(*name))).unwrap_or_default();
        if people.len() >= PEOPLE_MAX {
            people.clear();
        }
        let thread = people.entry(whose.to_owned()).or_insert_with(|| Thread::new(Format::Mem0, whose, said_at));
        let message = Message::new(Role::User, clean(memory), said_at);
        thread.note(&at, Next { key: id.to_owned(), message, dated: dated.is_some() }, about(&value), taker)
    })
}

/// What is known about a memory.
fn about(value: &Value) -> Map<String, Value> {
    let mut metadata = Map::from_iter([("imported_memory".to_owned(), true.into())]);
    let names = [
        ("updated_at", "updated_at"),
        ("categories", "categories"),
        ("metadata", "metadata"),
        ("agent_id", "agent_id"),
    ];
    metadata.extend(copied(value, &names));
    metadata
}
