//! Statements as PostgreSQL has them. The statements beside `sqlite` are written once; what the two call differently is put
//! into the other words here, when a statement is first prepared on a connection.
//!
//! Few words differ, and they are found as words: nothing inside quotes is touched. What a query means is never changed: where
//! the two disagree about meaning, the statement itself is written so that they agree.

/// Tables that belong to no tenant.
const OURS: [&str; 8] =
    ["recall_made_with", "recall_embedder", "tenant", "api_key", "access", "instance", "known_tenant", "erased"];

/// Tables that say whose they are in a column of their own, `tenant`; all others have `home`.
const SAY_TENANT: [&str; 13] = [
    "knowledge",
    "document",
    "outbox",
    "session",
    "episode",
    "topic",
    "fact_statement",
    "fact",
    "fact_undo",
    "fact_erased",
    "idempotent_request",
    "memory_answer",
    "memory_spent",
];

/// Tables whose new rows get a key that somebody asks for.
const KEYED: [&str; 5] = ["session", "turn", "topic", "block", "document"];

/// A statement in PostgreSQL's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) sql: String,
    /// Whether running it tells the key of the new row.
    pub(super) tells_key: bool,
}

/// Puts a statement into PostgreSQL's words. `is_null` says which of its values are NULL: PostgreSQL cannot tell the type of one that
/// is only asked whether it is.
pub(super) fn translate(sql: &str, is_null: &[bool]) -> Translated {
    let mut tokens = words_replaced(tokens(sql));
    answer_nulls(&mut tokens, is_null);
    while let Some(call) = last_call(&tokens) {
        let rewritten = rewritten(&tokens, &call);
        tokens.splice(call.word..=call.close, [rewritten]);
    }
    let table = table(&tokens).unwrap_or_default();
    conflict_at_home(&mut tokens, &table);
    let mut sql = tokens.concat();
    let tells_key = KEYED.contains(&&*table) && !sql.contains("RETURNING");
    if tells_key {
        sql.push_str(" RETURNING key");
    }
    Translated { sql, tells_key }
}

/// Cuts a statement into words, quoted text, values, and single other characters.
fn tokens(sql: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), sql);
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '?' => rest[1..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| end + 1),
            c if c.is_whitespace() => rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()),
            c if is_word(c) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        found.push(match first {
            '?' => format!("${}", &token[1..]),
            _ if first.is_whitespace() => " ".to_owned(),
            _ => token.to_owned(),
        });
        rest = after;
    }
    found
}

/// Words that are called otherwise, or not said at all.
fn words_replaced(tokens: Vec<String>) -> Vec<String> {
    let mut told = Vec::with_capacity(tokens.len());
    let (mut rest, mut ignores) = (tokens.into_iter().peekable(), false);
    while let Some(token) = rest.next() {
        match &*token {
            // Whoever asks for the name of the connection's role writes it in capitals.
            "user" => told.push("\"user\"".to_owned()),
            // The order of joins is the planner's here.
            "CROSS" => drop(rest.next()),
            // INDEXED BY name
            "INDEXED" => rest.by_ref().take(5).for_each(drop),
            // INSERT OR IGNORE
            "OR" if rest.clone().nth(1).is_some_and(|next| next == "IGNORE") => {
                rest.by_ref().take(3).for_each(drop);
                ignores = true;
            }
            _ => told.push(token),
        }
    }
    if ignores {
        told.push(" ON CONFLICT DO NOTHING".to_owned());
    }
    told
}

/// What is asked of a value alone is answered here: `?1 IS NULL`.
fn answer_nulls(tokens: &mut Vec<String>, is_null: &[bool]) {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (asked, wanted) in
        [(words(&[" ", "IS", " ", "NULL"]), true), (words(&[" ", "IS", " ", "NOT", " ", "NULL"]), false)]
    {
        for at in (0..tokens.len()).rev() {
            let value = tokens[at].strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
            let known = value.and_then(|number| is_null.get(number.wrapping_sub(1)));
            if let Some(null) = known.filter(|_| tokens[at + 1..].starts_with(&asked)) {
                tokens.splice(at..=at + asked.len(), [(*null == wanted).to_string()]);
            }
        }
    }
}

/// A call of a function that is called otherwise.
struct Call {
    word: usize,
    close: usize,
    commas: Vec<usize>,
}

/// The last such call: it has none inside that comes later.
fn last_call(tokens: &[String]) -> Option<Call> {
    (0..tokens.len()).rev().filter(|at| matches!(&*tokens[*at], "iif" | "max" | "min")).find_map(|word| {
        let (mut depth, mut commas) = (0, Vec::new());
        for (at, token) in tokens.iter().enumerate().skip(word + 1) {
            match &**token {
                "(" => depth += 1,
                ")" => depth -= 1,
                "," if depth == 1 => commas.push(at),
                _ => {}
            }
            if depth == 0 {
                // Of one value it is the aggregate, which has the same name.
                return (token == ")" && !commas.is_empty()).then_some(Call { word, close: at, commas });
            }
        }
        None
    })
}

fn rewritten(tokens: &[String], call: &Call) -> String {
    let inside = |from: usize, to: usize| tokens[from + 1..to].concat();
    match (&*tokens[call.word], &call.commas[..]) {
        ("iif", [first, second]) => format!(
            "CASE WHEN {} THEN {} ELSE {} END",
            inside(call.word + 1, *first),
            inside(*first, *second),
            inside(*second, call.close)
        ),
        ("min", _) => format!("least({})", inside(call.word + 1, call.close)),
        _ => format!("greatest({})", inside(call.word + 1, call.close)),
    }
}

/// The table that a statement inserts into.
fn table(tokens: &[String]) -> Option<String> {
    let mut words = tokens.iter().filter(|token| *token != " ");
    (words.next()? == "INSERT" && words.next()? == "INTO").then(|| words.next().cloned())?
}

/// Every key begins with whose it is, so what is the same is the same of one tenant.
fn conflict_at_home(tokens: &mut Vec<String>, table: &str) {
    let home = match table {
        "" => return,
        table if OURS.contains(&table) => return,
        table if SAY_TENANT.contains(&table) => "tenant",
        _ => "home",
    };
    let Some(conflict) = tokens.iter().position(|token| token == "CONFLICT") else { return };
    let open = tokens.iter().enumerate().skip(conflict).find(|(_, token)| *token != " " && *token != "CONFLICT");
    if let Some((open, _)) = open.filter(|(at, token)| *token == "(" && tokens[*at + 1] != home) {
        tokens.insert(open + 1, format!("{home}, "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        assert_eq!(translate(sql, &[]).sql, expected);
    }

    #[test]
    fn values_and_names_are_found_as_words() {
        check(
            "SELECT user FROM s WHERE user = ?1 AND role = 'user' AND x = ?12",
            "SELECT \"user\" FROM s WHERE \"user\" = $1 AND role = 'user' AND x = $12",
        );
        check("SELECT session.user, users FROM session", "SELECT session.\"user\", users FROM session");
    }

    #[test]
    fn hints_for_the_planner_are_left_out() {
        check("SELECT 1 FROM a INDEXED BY a_by_b CROSS JOIN b ON b.k = a.k", "SELECT 1 FROM a JOIN b ON b.k = a.k");
    }

    #[test]
    fn functions_of_several_values_have_other_names() {
        check("SELECT max(a), max(a, ?1), min(b, c) FROM t", "SELECT max(a), greatest(a, $1), least(b, c) FROM t");
        check(
            "SELECT iif(?1 < 0 OR a > ?2 - max(?1, 0), ?2, iif(b, 1, 2))",
            "SELECT CASE WHEN $1 < 0 OR a > $2 - greatest($1, 0) THEN  $2 ELSE  CASE WHEN b THEN  1 ELSE  2 END END",
        );
        check(
            "SELECT coalesce(max(a), 0), iif(a IN (1, 2), 'x, y', b)",
            "SELECT coalesce(max(a), 0), CASE WHEN a IN (1, 2) THEN  'x, y' ELSE  b END",
        );
    }

    #[test]
    fn what_is_the_same_is_the_same_of_one_tenant() {
        check(
            "INSERT OR IGNORE INTO fact_todo (turn) VALUES (?1)",
            "INSERT INTO fact_todo (turn) VALUES ($1) ON CONFLICT DO NOTHING",
        );
        check(
            "INSERT INTO recall_row (turn) VALUES (?1) ON CONFLICT (turn) DO UPDATE SET row = excluded.row",
            "INSERT INTO recall_row (turn) VALUES ($1) ON CONFLICT (home, turn) DO UPDATE SET row = excluded.row",
        );
        check(
            "INSERT INTO fact (id) VALUES (?1) ON CONFLICT (tenant, user, id) DO NOTHING",
            "INSERT INTO fact (id) VALUES ($1) ON CONFLICT (tenant, \"user\", id) DO NOTHING",
        );
        check(
            "INSERT INTO episode (id) VALUES (?1) ON CONFLICT (session_key, level) DO NOTHING",
            "INSERT INTO episode (id) VALUES ($1) ON CONFLICT (tenant, session_key, level) DO NOTHING",
        );
        check(
            "INSERT INTO recall_made_with (what) VALUES (?1) ON CONFLICT (what) DO NOTHING",
            "INSERT INTO recall_made_with (what) VALUES ($1) ON CONFLICT (what) DO NOTHING",
        );
    }

    #[test]
    fn what_is_asked_of_a_value_alone_is_answered() {
        let sql = "SELECT 1 WHERE (?1 IS NULL OR id = ?1) AND ?2 IS NULL AND x IS NULL AND ?2 IS NOT NULL";
        let expected = "SELECT 1 WHERE (true OR id = $1) AND false AND x IS NULL AND true";
        assert_eq!(translate(sql, &[true, false]).sql, expected);
    }

    #[test]
    fn new_rows_tell_their_keys() {
        let told = translate("INSERT INTO turn (id) VALUES (?1)", &[]);
        assert!(told.tells_key && told.sql.ends_with(" RETURNING key"));
        assert!(!translate("INSERT INTO session (id) VALUES (?1) RETURNING key, ttl", &[]).tells_key);
        assert!(!translate("UPDATE turn SET id = ?1", &[]).tells_key);
    }
}
