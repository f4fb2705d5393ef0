//! Bits that turn over on the disk: every one that changes what is kept is found, and none is shown.
//!
//! `RECALLD_DAMAGE_FLIPS` says how many flips that change something are looked for; a few by default.

use std::collections::HashSet;
use std::path::Path;

use recalld::store::Sqlite;
use rusqlite::types::Value as Kept;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::facts::learn;
use crate::house::{House, OTHER_SESSION, SESSION};

/// Doors through which everything that was said, told or learned can be seen.
const DOORS: [(&str, &str); 9] = [
    ("", "/api/v1/export?everyone=true"),
    ("", "/api/v1/sessions?limit=50"),
    ("", "/api/v1/sessions/550e8400-e29b-41d4-a716-446655440000/turns?limit=50"),
    ("", "/api/v1/episodes?limit=50"),
    ("", "/api/v1/topics?limit=50"),
    ("ann", "/api/v1/users/ann/facts?limit=50&status=any"),
    ("ann", "/api/v1/sessions?limit=50"),
    ("", "/api/v1/knowledge?limit=50"),
    ("", "/api/v1/knowledge/{document}/passages?limit=50"),
];

/// A house in which something of every kind happened.
async fn lived_in() -> (House, String) {
    let house = crate::knowledge::house();
    let says = |text: &str| house.model.then(recalld::model::scripted::Line { pieces: vec![text.into()], error: None });
    for n in 0..24 {
        says(&format!("answer {n}: linseed oil paint dries slowly, in about {n} days"));
        house.chat(SESSION, &format!("question {n} about the paint for the shed in Porto")).await;
    }
    for words in ["My name is Ann and I live in Lisbon.", "I am allergic to nuts.", "We moved to Porto today."] {
        says("Noted.");
        house.post("/chat").session(OTHER_SESSION).user("ann").json(json!({ "query": words })).await.expect(200);
    }
    learn(&house).await;
    house.memory.run_jobs_once().await.expect("jobs run");
    house.memory.tend_topics().await.expect("topics are tended");
    let scope = recalld::scope::Scope::new(Default::default(), recalld::scope::User::anonymous());
    let session = recalld::id::SessionId::parse(SESSION).expect("an id");
    assert!(house.memory.archive(&scope, session, 12).await.expect("moved") > 0);
    let text = "# Paint\n\nLinseed oil paint dries slowly.\n\n# Sheds\n\nA shed needs two coats.".repeat(8);
    let document = crate::knowledge::added(&house, "paint.md", text).await;
    let id = document["id"].as_str().expect("an id").to_owned();
    (house, id)
}

/// Everything that is kept: each row of each table but lists of what there is to do. `Err` when it cannot be read.
fn content(path: &Path) -> rusqlite::Result<Vec<Vec<Kept>>> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%\\_todo' ESCAPE '\\' AND name NOT LIKE 'sqlite%'";
    let tables: Vec<String> = db.prepare(names)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for table in tables {
        let mut statement = db.prepare(&format!("SELECT * FROM \"{table}\" NOT INDEXED"))?;
        let columns = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| (0..columns).map(|n| row.get(n)).collect::<rusqlite::Result<Vec<Kept>>>();
        for row in statement.query_map([], read)? {
            let mut row = row?;
            row.push(Kept::Text(table.clone()));
            rows.push(row);
        }
    }
    Ok(rows)
}

/// All texts in what was answered.
fn texts(answer: &Value, into: &mut HashSet<String>) {
    match answer {
        Value::String(text) => {
            into.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => fields.values().for_each(|item| texts(item, into)),
        _ => {}
    }
}

/// What is shown at the doors, in texts. An answer that is an error shows nothing. Sums, cursors and words about damage are
/// ours, not what is kept.
async fn shown(house: &House, document: &str) -> HashSet<String> {
    let mut seen = HashSet::new();
    for (user, path) in DOORS {
        let answer = house.get(&path.replace("{document}", document)).user(user).send().await;
        if answer.status != 200 {
            continue;
        }
        for line in answer.text().lines() {
            let mut line: Value = serde_json::from_str(line).unwrap_or(Value::Null);
            if matches!(line["type"].as_str(), Some("damaged" | "header" | "end")) {
                continue;
            }
            if let Some(fields) = line.as_object_mut() {
                ["sum", "cursor", "next"].iter().for_each(|ours| drop(fields.remove(*ours)));
            }
            texts(&line, &mut seen);
        }
    }
    seen
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

#[tokio::test]
async fn a_flipped_bit_is_found_and_never_shown() {
    let wanted: usize = std::env::var("RECALLD_DAMAGE_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let seed = std::env::var("RECALLD_DAMAGE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0x9e37_79b9_7f4a_7c15);
    let (house, document) = lived_in().await;
    let before = shown(&house, &document).await;
    for words in ["linseed oil paint", "A shed needs two coats", "Porto", "allergic"] {
        assert!(before.iter().any(|text| text.contains(words)), "{words} is not shown");
    }
    let data = house.data();
    house.memory.close(std::time::Duration::from_secs(5)).await.expect("closed");
    let whole = std::fs::read(&data).expect("read");
    let kept = content(&data).expect("readable");
    assert_eq!(Sqlite::verify(&data).expect("looked").problems, Vec::<String>::new());
    let folder = tempfile::tempdir().expect("a folder");
    let (mut dice, mut changed, mut harmless, mut missed, mut wrong) = (Dice(seed), 0, 0, Vec::new(), Vec::new());
    while changed < wanted {
        let (at, bit) = (dice.roll(whole.len()), dice.roll(8));
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        let copy = folder.path().join(format!("{at}-{bit}.db"));
        std::fs::write(&copy, &flipped).expect("written");
        let same = content(&copy).is_ok_and(|now| now == kept);
        let found = Sqlite::verify(&copy);
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.path().join(format!("{at}-{bit}.db{end}")));
        }
        if same {
            harmless += 1;
            continue;
        }
        changed += 1;
        if found.is_ok_and(|found| found.is_well()) {
            missed.push((at, bit));
        }
        let Ok(house) = House::plan().try_open(&flipped) else { continue };
        let now = shown(&house, &document).await;
        wrong.extend(now.difference(&before).map(|text| format!("byte {at}, bit {bit}: {text}")));
    }
    println!(
        "{changed} flips changed what is kept, {} were missed, {} texts shown wrongly; {harmless} changed nothing",
        missed.len(),
        wrong.len()
    );
    assert_eq!(missed, Vec::<(usize, usize)>::new(), "flips that `verify` did not find (byte, bit) of {}", whole.len());
    assert_eq!(wrong, Vec::<String>::new(), "texts that were never said");
}
