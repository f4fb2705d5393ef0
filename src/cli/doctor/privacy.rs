//! `recalld doctor --privacy`: what is kept, where, for how long, by tenant.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::Common;
use crate::cli::client::{Need, with_client};
use crate::cli::engine::variable;
use crate::cli::output;
use crate::cli::table::{flat, table};
use crate::config::Settings;

pub(super) fn privacy(common: &Common) -> anyhow::Result<ExitCode> {
    let settings = common.load([])?.settings;
    with_client(common, Need::Memory, async |client| {
        let counted = client.get("/api/v1/privacy").await?;
        let places = places(&settings);
        if common.json {
            output::json(&json!({ "kept": counted, "places": places_json(&places) }))?;
            return Ok(ExitCode::SUCCESS);
        }
        tell(&counted, &places)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Something that is kept: what, where, for how long, and how it goes.
struct Place {
    what: &'static str,
    place: String,
    how_long: String,
    goes: &'static str,
}

fn place(what: &'static str, place: impl Into<String>, how_long: impl Into<String>, goes: &'static str) -> Place {
    Place { what, place: place.into(), how_long: how_long.into(), goes }
}

/// Everything that is kept, by these settings.
fn places(settings: &Settings) -> Vec<Place> {
    let data = match settings.database_url() {
        Some(_) => "the PostgreSQL of `database_url`".to_owned(),
        None => settings.data_file(variable).display().to_string(),
    };
    let beside = |ending: &str| match settings.database_url() {
        Some(_) => data.clone(),
        None => format!("{data}{ending}"),
    };
    let ttl = format!("`ttl` ({}), or the session's or tenant's own", settings.ttl);
    let live = format!("`session_ttl_hours` ({} h) after the last message", settings.session_ttl_hours);
    vec![
        place("turns, messages, revisions", &data, &ttl, "ttl, forget"),
        place("archived text", &data, &ttl, "ttl, forget (the block is written anew)"),
        place("recall rows, vectors", &data, "as long as their turn", "with their turn"),
        place("traces, what was shown", &data, "the newest 200 turns of a session", "with any forget of their user"),
        place("episodes, summaries", &data, "no end: they outlive their turns", "forget (told anew without it)"),
        place("topics", &data, "as long as they have turns", "with their last turn"),
        place("facts, statements", &data, "no end, or until a time that was said", "forget, undo"),
        place("knowledge", &data, "no end", "knowledge remove, forget"),
        place("jobs", &data, "until they are done", "with their session"),
        place("webhooks", &data, "until delivered; 14 days where that failed", "delivery, forget"),
        place("unused model answers", &data, "the newest 20 of a user", "with their session or topic"),
        place(
            "requests with a key",
            &data,
            "a day, the newest 1,000 of a user; hashes and ids, no words",
            "their day, forget of their user",
        ),
        place("keys", &data, "30 days after their end; sealed, never in clear", "revoke, forget"),
        place("copies of damaged logs", beside("-wal.damaged-…"), "30 days", "any forget"),
        place("live sessions", "this process", live, "their end, forget"),
        place(
            "clarifications",
            "this process",
            format!("`clarification_ttl` ({})", settings.clarification_ttl),
            "by themselves",
        ),
        place("waiting turns", "this process", "until the disk takes them", "forget"),
        place("book of what was erased", beside(".erased"), "no end: keyed hashes, kinds and times", "never"),
        place("its key; the seal of keys", beside(".erased-key"), "no end", "never"),
        place("logs", "standard error", "whoever collects them decides", "ids and counts, no words"),
        place("copies you made", "wherever you keep them", "as long as you keep them", "erased again when put back"),
    ]
}

fn places_json(places: &[Place]) -> Value {
    let one = |kept: &Place| json!({ "what": kept.what, "where": kept.place, "how_long": kept.how_long, "goes_by": kept.goes });
    places.iter().map(one).collect()
}

/// What is counted of each tenant, under which heading.
const COUNTED: [(&str, &str); 15] = [
    ("USERS", "users"),
    ("SESSIONS", "sessions"),
    ("TURNS", "turns"),
    ("ARCHIVED", "archived"),
    ("TRACES", "traces"),
    ("EPISODES", "episodes"),
    ("TOPICS", "topics"),
    ("FACTS", "facts"),
    ("STATEMENTS", "statements"),
    ("DOCUMENTS", "documents"),
    ("PASSAGES", "passages"),
    ("JOBS", "jobs"),
    ("WEBHOOKS", "webhooks"),
    ("ANSWERS", "model_answers"),
    ("KEYS", "keys"),
];

fn tell(counted: &Value, places: &[Place]) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> = places
        .iter()
        .map(|kept| vec![kept.what.to_owned(), kept.how_long.clone(), kept.goes.to_owned(), flat(&kept.place)])
        .collect();
    table(&["KEPT", "HOW LONG", "GOES BY", "WHERE"], &rows, None).iter().try_for_each(output::say)?;
    output::say("")?;
    for tenant in counted["tenants"].as_array().into_iter().flatten() {
        tell_tenant(tenant)?;
    }
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let (live, open) = (count(&counted["live_sessions"]), count(&counted["clarifications"]));
    output::say(format!(
        "in memory: {live} live sessions, {open} clarifications, {} waiting turns",
        count(&counted["waiting"])
    ))?;
    let book = &counted["ledger"];
    let last = book["last_at"].as_str().map(|at| format!(", the last of {at}")).unwrap_or_default();
    output::say(format!(
        "erased: {} lines{last}; {} not followed yet",
        count(&book["lines"]),
        count(&book["not_applied"])
    ))
}

fn tell_tenant(tenant: &Value) -> anyhow::Result<()> {
    let name = flat(tenant["tenant"].as_str().unwrap_or("-"));
    let since = tenant["oldest"].as_str().map(|at| format!(", since {at}")).unwrap_or_default();
    output::say(format!("tenant {name}: turns are kept for {}{since}", tenant["ttl"].as_str().unwrap_or("-")))?;
    let some = COUNTED.iter().filter_map(|(head, name)| {
        let count = tenant[*name].as_u64().filter(|count| *count > 0)?;
        Some(format!("{count} {}", head.to_lowercase()))
    });
    output::say(format!("  {}", some.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_says_how_long_and_how_it_goes() {
        let settings = Settings { ttl: "24h".parse().expect("a time"), ..Settings::default() };
        let places = places(&settings);
        assert!(places.iter().all(|kept| !kept.how_long.is_empty() && !kept.goes.is_empty() && !kept.place.is_empty()));
        assert!(places[0].how_long.contains("24h"), "{}", places[0].how_long);
        assert!(places.iter().any(|kept| kept.place.ends_with("recalld.db.erased")));
    }
}
