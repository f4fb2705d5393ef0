//! Bits that turn over on the disk: every one that changes what is kept is found, and none is shown.
//!
//! `RECALLD_DAMAGE_FLIPS` says how many flips that change something are looked for; a few by default.

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

/// What a door shows: all of it, or nothing because it says that it cannot.
type Shown = Option<Vec<String>>;

/// What is shown at the doors, line by line. Words about damage are ours, not what is kept.
async fn shown(house: &House, document: &str) -> Vec<Shown> {
    let mut seen = Vec::new();
    for (user, path) in DOORS {
        let answer = house.get(&path.replace("{document}", document)).user(user).send().await;
        let lines = || answer.text().lines().map(content_of).collect();
        seen.push((answer.status == 200 && answer.whole).then(lines));
    }
    seen
}

/// A line without what says where it stands in its file.
fn content_of(line: &str) -> String {
    let mut line: Value = serde_json::from_str(line).expect("JSON");
    if let Some(fields) = line.as_object_mut() {
        ["sum", "checksum"].iter().for_each(|ours| drop(fields.remove(*ours)));
    }
    line.to_string()
}

fn is_of_the_file(line: &str) -> bool {
    ["damaged", "end"].iter().any(|kind| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
}

/// What is shown now and was not before. An export tells what it cannot read in place of it; everything else is equal, or an error.
fn wrong(before: &[Shown], now: &[Shown]) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((before, now), (_, door)) in before.iter().zip(now).zip(DOORS) {
        let (Some(before), Some(now)) = (before, now) else { continue };
        match door.contains("/export") {
            true => wrong.extend(now.iter().filter(|line| !is_of_the_file(line) && !before.contains(line)).cloned()),
            false if before != now => wrong.push(format!("{door}: {now:?}")),
            false => {}
        }
    }
    wrong
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

/// What flips came to.
#[derive(Debug, Default)]
struct Flips {
    /// Those that changed what is kept, and those that did not.
    changed: usize,
    harmless: usize,
    /// Of the first: those that kept a server from starting, and those of which it told at a door.
    refused: usize,
    told: usize,
    missed: Vec<(usize, usize)>,
    wrong: Vec<String>,
}

#[tokio::test]
async fn a_flipped_bit_is_found_and_never_shown() {
    let wanted: usize = std::env::var("RECALLD_DAMAGE_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let seed = std::env::var("RECALLD_DAMAGE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0x9e37_79b9_7f4a_7c15);
    let (house, document) = lived_in().await;
    let data = house.data();
    house.memory.close(std::time::Duration::from_secs(5)).await.expect("closed");
    let whole = std::fs::read(&data).expect("read");
    let kept = content(&data).expect("readable");
    assert_eq!(Sqlite::verify(&data).expect("looked").problems, Vec::<String>::new());
    let before = shown(&House::plan().try_open(&whole).expect("it opens"), &document).await;
    let all = format!("{before:?}");
    for words in ["linseed oil paint", "A shed needs two coats", "Porto", "allergic"] {
        assert!(all.contains(words), "{words} is not shown");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (mut dice, mut flips) = (Dice(seed), Flips::default());
    while flips.changed < wanted {
        let (at, bit) = (dice.roll(whole.len()), dice.roll(8));
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        let copy = folder.path().join("copy.db");
        std::fs::write(&copy, &flipped).expect("written");
        let same = content(&copy).is_ok_and(|now| now == kept);
        let found = Sqlite::verify(&copy);
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.path().join(format!("copy.db{end}")));
        }
        if same {
            flips.harmless += 1;
            continue;
        }
        flips.changed += 1;
        if found.is_ok_and(|found| found.is_well()) {
            flips.missed.push((at, bit));
        }
        let Ok(house) = House::plan().try_open(&flipped) else {
            flips.refused += 1;
            continue;
        };
        let now = shown(&house, &document).await;
        flips.told +=
            usize::from(now.contains(&None) || now.iter().flatten().flatten().any(|line| line.contains("\"damaged\"")));
        flips.wrong.extend(wrong(&before, &now).into_iter().map(|text| format!("byte {at}, bit {bit}: {text}")));
    }
    let Flips { changed, harmless, refused, told, missed, wrong } = flips;
    println!(
        "{changed} flips changed what is kept: {} missed by verify, {} shown wrongly; {refused} kept a server from starting, \
         {told} were told of at a door; {harmless} changed nothing that is kept",
        missed.len(),
        wrong.len()
    );
    assert_eq!(missed, Vec::<(usize, usize)>::new(), "flips that `verify` did not find (byte, bit) of {}", whole.len());
    assert_eq!(wrong, Vec::<String>::new(), "what was never said");
}
