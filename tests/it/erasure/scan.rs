//! Looking for words by their tails: in the bytes of files, in what was packed into blocks, and in every column of every table.

use std::collections::HashMap;
use std::path::Path;

use recalld::store::archive::unpack;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// Letters of a word that are left out in front: what compresses words keeps only what is different at their end.
const HEAD: usize = 3;
/// Bytes of a tail that are hashed to find it.
const KEY: usize = 8;

/// Words by what their tails begin with, so that bytes are gone through once, however many words there are.
struct Sought<'a> {
    by_key: HashMap<[u8; KEY], Vec<(Vec<u8>, &'a str)>>,
}

impl<'a> Sought<'a> {
    fn new(words: &'a [String]) -> Self {
        let mut by_key: HashMap<[u8; KEY], Vec<(Vec<u8>, &str)>> = HashMap::new();
        for word in words {
            let tail: String = word.chars().skip(HEAD).collect();
            for form in [tail.clone(), tail.to_uppercase()] {
                let bytes = form.into_bytes();
                let key = *bytes.first_chunk().expect("words are longer than that");
                by_key.entry(key).or_default().push((bytes, word));
            }
        }
        Self { by_key }
    }

    /// The words whose tails are in some bytes, with where that is.
    fn find(&self, place: &str, bytes: &[u8], found: &mut Vec<String>) {
        for at in 0..bytes.len().saturating_sub(KEY - 1) {
            let key: &[u8; KEY] = bytes[at..].first_chunk().expect("there are as many");
            for (tail, word) in self.by_key.get(key).into_iter().flatten() {
                if bytes[at..].starts_with(tail) {
                    found.push(format!("{word} in {place}"));
                }
            }
        }
    }
}

/// Words in the bytes of one file.
pub(super) fn in_bytes(file: &Path, words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    Sought::new(words).find("the file", &std::fs::read(file).expect("a file"), &mut found);
    found
}

/// Words in any file of a folder, in any value of its database, and in its blocks unpacked.
pub(super) fn in_files(folder: &Path, words: &[String]) -> Vec<String> {
    let (sought, mut found) = (Sought::new(words), Vec::new());
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        sought.find(&name, name.as_bytes(), &mut found);
        sought.find(&name, &std::fs::read(entry.path()).expect("a file"), &mut found);
    }
    let db = Connection::open_with_flags(folder.join("r.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the data");
    let tables: Vec<String> = strings(&db, "SELECT name FROM sqlite_schema WHERE type = 'table'");
    assert!(tables.len() > 20, "every table is looked at");
    tables.iter().for_each(|table| in_table(&db, table, &sought, &mut found));
    found.sort_unstable();
    found.dedup();
    found
}

fn strings(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("text")
}

fn in_table(db: &Connection, table: &str, sought: &Sought<'_>, found: &mut Vec<String>) {
    let mut statement = db.prepare(&format!("SELECT * FROM \"{table}\"")).expect("a table");
    let columns: Vec<String> = statement.column_names().map(|name| format!("{table}.{name}")).collect();
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        for (at, column) in columns.iter().enumerate() {
            if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = row.get_ref(at).expect("a value") {
                sought.find(column, bytes, found);
                in_block(column, bytes, sought, found);
            }
        }
    }
}

/// What a block holds is text that no search of bytes sees.
fn in_block(column: &str, bytes: &[u8], sought: &Sought<'_>, found: &mut Vec<String>) {
    if column != "block.bytes" {
        return;
    }
    for turn in unpack(bytes).expect("a whole block") {
        let texts = [Some(turn.question), turn.answer, turn.extra];
        texts.into_iter().flatten().for_each(|text| sought.find(column, text.as_bytes(), found));
    }
}

/// The same in every column of every table of a PostgreSQL schema, whatever tables there are, and in the statistics of them.
#[cfg(feature = "postgres")]
pub(super) async fn in_tables(url: &str, schema: &str, words: &[String]) -> Vec<String> {
    let client = connect(url).await;
    let (sought, mut found) = (Sought::new(words), Vec::new());
    // Whoever is kept from rows fails instead of seeing fewer.
    client.batch_execute(&format!("SET row_security = off; SET search_path = {schema}; ANALYZE")).await.expect("set");
    let columns =
        "SELECT c.table_name::text, c.column_name::text, c.data_type::text FROM information_schema.columns AS c
                   JOIN information_schema.tables AS t USING (table_schema, table_name)
                   WHERE c.table_schema = $1 AND t.table_type = 'BASE TABLE'
                     AND c.data_type IN ('text', 'bytea', 'json', 'jsonb', 'character varying')";
    let columns = client.query(columns, &[&schema]).await.expect("columns");
    assert!(columns.len() > 60, "every column is looked at");
    for column in columns {
        let (table, name, kind): (String, String, String) = (column.get(0), column.get(1), column.get(2));
        let as_bytes =
            if kind == "bytea" { format!("\"{name}\"") } else { format!("convert_to(\"{name}\"::text, 'UTF8')") };
        let sql = format!("SELECT {as_bytes} FROM \"{table}\" WHERE \"{name}\" IS NOT NULL");
        let place = format!("{table}.{name}");
        for row in client.query(&sql, &[]).await.expect("rows") {
            let bytes: Vec<u8> = row.get(0);
            sought.find(&place, &bytes, &mut found);
            in_block(&place, &bytes, &sought, &mut found);
        }
    }
    in_statistics(&client, schema, &sought, &mut found).await;
    found.sort_unstable();
    found.dedup();
    found
}

/// Common values, and those that divide a column into parts. Bytes are shown there as digits.
#[cfg(feature = "postgres")]
async fn in_statistics(client: &tokio_postgres::Client, schema: &str, sought: &Sought<'_>, found: &mut Vec<String>) {
    let sql = "SELECT tablename::text || '.' || attname::text,
                      coalesce(most_common_vals::text, '') || coalesce(histogram_bounds::text, '')
               FROM pg_stats WHERE schemaname = $1";
    for row in client.query(sql, &[&schema]).await.expect("statistics") {
        let (place, values): (String, String) = (row.get(0), row.get(1));
        let place = format!("statistics of {place}");
        sought.find(&place, values.as_bytes(), found);
        for part in values.split("\\x").skip(1) {
            let digits: Vec<u8> = part.bytes().take_while(u8::is_ascii_hexdigit).collect();
            let byte =
                |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits");
            let bytes: Vec<u8> = digits.as_chunks::<2>().0.iter().map(byte).collect();
            sought.find(&place, &bytes, found);
        }
    }
}

#[cfg(feature = "postgres")]
async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

#[cfg(feature = "postgres")]
pub(super) async fn remove(url: &str, schema: &str) {
    connect(url).await.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("removed");
}

#[test]
fn words_are_found_by_their_tails_and_in_capitals() {
    let words = vec!["zqabcdefghijklmn".to_owned(), "жéßøñżłğяжщ北京東字".to_owned()];
    let sought = Sought::new(&words);
    let find = |text: &str| {
        let mut found = Vec::new();
        sought.find("here", text.as_bytes(), &mut found);
        found.len()
    };
    assert_eq!(find("…bcdefghijklmn…"), 1, "without what it begins with");
    assert_eq!(find("ZQABCDEFGHIJKLMN"), 1);
    assert_eq!(find("xøñżłğяжщ北京東字y"), 1);
    assert_eq!(find("zqabcdefghijklm zqabc"), 0, "only its beginning");
}
