//! Export and import through the doors, and from the command line.

use std::process::Stdio;
use std::sync::Arc;

use axum::body::Body;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::any_conversation::{Deed, Naming, converse, deed};
use crate::facts::learn;
use crate::house::{Answer, House, OTHER_SESSION, SESSION, field};
use crate::openai::open;
use crate::process::recalld;
use crate::routes::API_KEY;
use crate::upstream::Recording;

const LINES: &str = "application/x-ndjson";

async fn export(house: &House, query: &str) -> String {
    let answer = house.get(&format!("/api/v1/export?{query}")).send().await;
    assert_eq!((answer.status, answer.header("content-type")), (200, LINES), "{}", answer.text());
    answer.text().to_owned()
}

async fn import(house: &House, query: &str, lines: &str) -> Answer {
    let ask = house.post(&format!("/api/v1/import?{query}")).header("content-type", LINES);
    ask.body(Body::from(lines.to_owned())).await
}

fn types(export: &str) -> Vec<String> {
    let kind =
        |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["type"].as_str().expect("a type").to_owned();
    export.lines().map(kind).collect()
}

fn says(house: &House, text: &str) {
    house.model.then(recalld::model::scripted::Line { pieces: vec![text.into()], error: None });
}

/// A house with conversations of two people, long enough for episodes.
async fn lived_in() -> House {
    let house = crate::knowledge::house();
    for n in 0..25 {
        says(&house, &format!("answer {n}: linseed oil paint dries slowly"));
        house.chat(SESSION, &format!("question {n} about the paint for the shed")).await;
    }
    for words in
        ["hello 🌱", "My name is Ben and I live in Lisbon.", "We moved to Porto today.", "I am allergic to nuts."]
    {
        says(&house, "hi");
        house.post("/chat").session(OTHER_SESSION).user("ben").json(json!({ "query": words })).await.expect(200);
    }
    learn(&house).await;
    crate::knowledge::added(&house, "paint.md", "# Paint\n\nLinseed oil paint dries slowly.").await;
    house.memory.run_jobs_once().await.expect("jobs run");
    house.memory.tend_topics().await.expect("topics are tended");
    house
}

/// What is exported and taken in elsewhere is exported again byte for byte.
#[tokio::test]
async fn an_export_of_an_import_is_the_export() {
    let house = lived_in().await;
    let exported = export(&house, "everyone=true").await;
    let kinds = types(&exported);
    for kind in ["header", "topic", "fact", "session", "episode", "turn", "document", "passage", "part", "end"] {
        assert!(kinds.iter().any(|found| found == kind), "no {kind} in {kinds:?}");
    }
    let empty = House::open();
    let report = import(&empty, "everyone=true", &exported).await.expect(200);
    assert_eq!((&report["sessions"], &report["turns"], &report["refused_count"]), (&json!(2), &json!(29), &json!(0)));
    assert!(report["facts"].as_u64() > Some(1) && report["documents"] == 1, "{report}");
    assert_eq!(export(&empty, "everyone=true").await, exported);
    let again = import(&empty, "everyone=true", &exported).await.expect(200);
    assert_eq!((&again["sessions"], &again["turns"], &again["turns_known"]), (&json!(0), &json!(0), &json!(29)));
    assert_eq!(export(&empty, "everyone=true").await, exported, "twice is once");
    // What is understood anew, found again and embedded is what it was.
    learn(&empty).await;
    assert_eq!(export(&empty, "everyone=true").await, exported, "what was known is not learned again");
    let facts =
        async |house: &House| house.get("/api/v1/users/ben/facts?status=any").user("ben").send().await.expect(200);
    assert_eq!(sorted(&facts(&empty).await["facts"]), sorted(&facts(&house).await["facts"]));
    let turns = empty.turns(SESSION).await;
    assert_eq!(field(&turns, "created_at"), field(&house.turns(SESSION).await, "created_at"), "dates survive");
}

/// Things of a list by their ids.
fn sorted(list: &Value) -> Vec<Value> {
    let mut list = list.as_array().expect("a list").clone();
    list.sort_by_key(|one| one["id"].to_string());
    list
}

/// An export is about one user, one conversation or a time when that is asked for.
#[tokio::test]
async fn an_export_can_be_narrowed() {
    let house = lived_in().await;
    let ben = export(&house, "user_id=ben").await;
    assert!(ben.contains("hello 🌱") && !ben.contains("linseed"), "{ben}");
    let one = export(&house, &format!("session={SESSION}")).await;
    assert!(one.contains("linseed") && !one.contains("hello 🌱"));
    let later = export(&house, "everyone=true&since=2030-01-01T00:00:00Z").await;
    assert_eq!(types(&later), ["header", "end"]);
    let unknown = house.get(&format!("/api/v1/export?session={OTHER_SESSION}")).send().await;
    assert_eq!(unknown.refusal(), (404, "unknown_session"), "somebody else's is as good as unknown");
    for wrong in ["since=soon", "after=here", "session=x"] {
        assert_eq!(house.get(&format!("/api/v1/export?{wrong}")).send().await.status, 400, "{wrong}");
    }
}

/// An export that broke off goes on behind any of its lines, and both parts come to the whole.
#[tokio::test]
async fn an_export_goes_on_behind_every_line() {
    let house = lived_in().await;
    let exported = export(&house, "everyone=true").await;
    let lines: Vec<&str> = exported.lines().collect();
    for (n, line) in lines.iter().enumerate().filter(|(n, _)| n % 5 == 1) {
        let cursor =
            serde_json::from_str::<Value>(line).expect("JSON")["cursor"].as_str().expect("a cursor").to_owned();
        let rest = export(&house, &format!("everyone=true&after={}", crate::house::encoded(&cursor))).await;
        let empty = House::open();
        let first = format!("{}\n", lines[..=n].join("\n"));
        import(&empty, "everyone=true", &first).await.expect(200);
        let report = import(&empty, "everyone=true", &rest).await.expect(200);
        assert_eq!(report["refused_count"], 0, "{report}");
        assert_eq!(export(&empty, "everyone=true").await, exported, "behind line {n}: {line}");
    }
}

/// Text that lies in blocks is exported in plain.
#[tokio::test]
async fn archived_text_is_exported() {
    let house = lived_in().await;
    let scope = recalld::scope::Scope::new(Default::default(), recalld::scope::User::anonymous());
    let session = recalld::id::SessionId::parse(SESSION).expect("an id");
    let before = export(&house, "everyone=true").await;
    let moved = house.memory.archive(&scope, session, 24).await.expect("moved");
    assert!(moved > 0);
    assert_eq!(export(&house, "everyone=true").await, before);
}

/// Bad lines are told by number and passed over; nothing of a conversation is half there.
#[tokio::test]
async fn bad_lines_are_told_and_passed_over() {
    let exported = export(&lived_in().await, "everyone=true").await;
    let mut lines: Vec<String> = exported.lines().map(str::to_owned).collect();
    let turn = lines.iter().position(|line| line.starts_with("{\"type\":\"turn\"")).expect("a turn");
    lines[turn] = lines[turn].replace("question", "kuestion");
    lines.insert(turn, "not JSON".into());
    lines.insert(turn, "{\"type\":\"fact\",\"key\":\"home\"}".into());
    let house = House::open();
    let report = import(&house, "everyone=true", &lines.join("\n")).await.expect(200);
    let told: Vec<u64> =
        report["refused"].as_array().expect("a list").iter().filter_map(|bad| bad["line"].as_u64()).collect();
    assert_eq!(told, [turn as u64 + 1, turn as u64 + 2, turn as u64 + 3], "{report}");
    assert_eq!(report["turns"], 28);
    let cut = &exported[..exported.len() / 2];
    assert_eq!(import(&House::open(), "everyone=true", cut).await.expect(200)["truncated"], true);
    let plain = house.post("/api/v1/import").header("content-type", "text/plain").body(Body::from("{}")).await;
    assert_eq!(plain.refusal(), (415, "not_json"));
    let newer = exported.lines().next().expect("a header").replace("\"version\":2", "\"version\":99");
    let newer = newer.split(",\"sum\"").next().expect("a part").to_owned() + "}";
    assert_eq!(import(&house, "", &newer).await.refusal(), (400, "newer_version"));
}

/// Somebody who imports gets it all, whatever names are in the file; who comes with a token never speaks for everyone.
#[tokio::test]
async fn a_file_goes_to_whoever_imports_it() {
    let exported = export(&lived_in().await, "everyone=true").await;
    let house = House::open();
    import(&house, "user_id=zoe", &exported).await.expect(200);
    assert_eq!(house.turns_of("zoe", OTHER_SESSION).await.len(), 4);
    let theirs = export(&house, "user_id=ben").await;
    assert_eq!(types(&theirs), ["header", "end"]);
    let dry = House::open();
    let report = import(&dry, "everyone=true&dry_run=true", &exported).await.expect(200);
    assert_eq!((&report["sessions"], &report["turns"]), (&json!(2), &json!(29)));
    assert_eq!(types(&export(&dry, "everyone=true").await), ["header", "end"], "a dry run writes nothing");
}

/// All users of a tenant take every right.
#[tokio::test]
async fn everybody_takes_the_right_of_an_admin() {
    let house = House::plan().setting(|settings| settings.api_key = API_KEY.into()).open();
    let made = house.post("/api/v1/keys").header("x-api-key", API_KEY);
    let made = made.json(json!({"tenant": "default", "rights": ["read", "write"], "trust_identity": true})).await;
    let key = made.json()["key"].as_str().expect("a key").to_owned();
    for (method, path) in [("GET", "export"), ("POST", "import")] {
        let path = format!("/api/v1/{path}?everyone=true");
        let ask = |key: &str| house.ask(method, &path).header("content-type", LINES).header("x-api-key", key);
        assert_eq!(ask(&key).send().await.refusal(), (403, "missing_right"), "{path}");
        assert_eq!(ask(API_KEY).send().await.status, 200, "{path}");
    }
    let own = house.get("/api/v1/export").header("x-api-key", &key).user("ann").send().await;
    assert!(own.status == 200 && own.text().contains("\"user\":\"ann\""), "{}", own.text());
}

/// What is imported is found again like anything else.
#[tokio::test]
async fn what_is_imported_is_recalled() {
    let exported = export(&lived_in().await, "everyone=true").await;
    let house = House::open();
    import(&house, "everyone=true", &exported).await.expect(200);
    let asked = house.post("/api/v1/recall").json(json!({"question": "which paint dries slowly?"})).await.expect(200);
    assert!(asked.to_string().contains("linseed"), "{asked}");
}

/// Messages of a person, a model and a tool, in any letters.
fn said() -> impl Strategy<Value = (usize, String)> {
    let text =
        prop_oneof!["\\PC{1,40}", "[a-zé🌱 \n\t?]{1,40}"].prop_filter("says something", |text| !text.trim().is_empty());
    (0_usize..4, text)
}

async fn remember(
    house: &House,
    upstream: &Arc<Recording>,
    deeds: &[Deed],
    said: &[(usize, String)],
) -> Result<(), TestCaseError> {
    for naming in [Naming::Session, Naming::OpenWebUi] {
        converse(house, upstream, naming, deeds).await?;
    }
    house.post("/api/v1/sessions").json(json!({"id": SESSION, "metadata": {"n": 1.5}, "ttl": "48h"})).await.expect(201);
    let roles = ["user", "assistant", "tool", "system"];
    let message = |(role, text): &(usize, String)| json!({"role": roles[*role], "content": text});
    let messages: Vec<Value> = said.iter().map(message).collect();
    if !messages.is_empty() {
        let path = format!("/api/v1/sessions/{SESSION}/messages");
        house.post(&path).json(json!(messages)).await.expect(201);
    }
    house.memory.run_jobs_once().await.expect("jobs run");
    house.memory.tend_topics().await.expect("topics are tended");
    Ok(())
}

/// Any history (branches, other answers, tool rounds, any letters) survives, also when the import broke off anywhere
/// and was done again.
#[test]
fn any_history_survives_a_broken_import() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let strategy = (vec(deed(), 1..10), vec(said(), 0..8), 0.0..1.0_f64);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(40) });
    let tried = runner.run(&strategy, |(deeds, said, cut)| {
        runtime.block_on(async {
            let (house, upstream) = open();
            remember(&house, &upstream, &deeds, &said).await?;
            let exported = export(&house, "everyone=true").await;
            let empty = House::open();
            let bytes = &exported.as_bytes()[..(exported.len() as f64 * cut) as usize];
            import(&empty, "everyone=true", &String::from_utf8_lossy(bytes)).await.expect(200);
            let report = import(&empty, "everyone=true", &exported).await.expect(200);
            prop_assert_eq!(&report["refused_count"], &json!(0));
            prop_assert_eq!(export(&empty, "everyone=true").await, exported);
            Ok(())
        })
    });
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}

// --- The command line -------------------------------------------------------------------------------

fn sample(name: &str) -> String {
    format!("{}/tests/data/import/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the binary; answers its exit code and what it said.
fn run(folder: &std::path::Path, arguments: &[&str]) -> (i32, String, String) {
    run_with(folder, arguments, &[])
}

fn run_with(folder: &std::path::Path, arguments: &[&str], settings: &[(&str, &str)]) -> (i32, String, String) {
    let state = folder.display().to_string();
    let mut command = recalld(folder, arguments, settings);
    command.env("XDG_STATE_HOME", &state);
    let done = command.args(["--data", "r.db"]).stdout(Stdio::piped()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

/// Files of every format are told by their content, taken in with their dates, and once.
#[test]
fn foreign_files_are_imported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [
        ("chatgpt.json", 2, 4),
        ("claude.json", 2, 3),
        ("openwebui.json", 1, 3),
        ("mem0.json", 1, 2),
        ("langchain.json", 1, 2),
        ("langchain_lc.json", 1, 1),
        ("whatsapp.txt", 1, 4),
        ("transcript.txt", 1, 2),
    ];
    let names: Vec<String> = files.iter().map(|(name, ..)| sample(name)).collect();
    let mut arguments = vec!["import", "--json", "--user", "ann"];
    arguments.extend(names.iter().map(String::as_str));
    let (code, told, _) = run(folder.path(), &arguments);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    for ((name, conversations, turns), report) in files.iter().zip(told["files"].as_array().expect("reports")) {
        assert_eq!(
            (&report["new"]["conversations"], &report["new"]["turns"]),
            (&json!(conversations), &json!(turns)),
            "{name}"
        );
    }
    assert_eq!(code, 1, "some records are bad: {told}");
    let first = run(folder.path(), &["export", "--user", "ann"]).1;
    assert!(first.contains("2024-05-12T14:03:00.5Z"), "dates survive");
    let again: Value = serde_json::from_str(&run(folder.path(), &arguments).1).expect("JSON");
    for report in again["files"].as_array().expect("reports") {
        assert_eq!((&report["new"]["conversations"], &report["new"]["turns"]), (&json!(0), &json!(0)), "{report}");
        assert_eq!(report["turns_known"], report["found"]["turns"], "{report}");
    }
    assert_eq!(run(folder.path(), &["export", "--user", "ann"]).1, first, "twice is once");
    let (code, _, complaint) = run(folder.path(), &["import", "r.db"]);
    assert!(code == 2 && complaint.contains("--format"), "{code} {complaint}");
}

/// An export to a file, a dry run and an import into another data file.
#[test]
fn a_memory_moves_from_file_to_file() {
    let (here, there) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    run(here.path(), &["import", "--user", "ann", &sample("openwebui.json")]);
    let (code, nothing, told) = run(here.path(), &["export", "--output", "all.jsonl"]);
    assert!(code == 0 && nothing.is_empty() && told.contains("1 conversation with 3 turns"), "{told}");
    let file = here.path().join("all.jsonl").display().to_string();
    let (_, dry, _) = run(there.path(), &["import", "--dry-run", &file]);
    assert!(dry.contains("would be new: 1 conversation, 3 turns"), "{dry}");
    let (code, told, complaint) = run(there.path(), &["import", "--resume", &file]);
    assert!(code == 0 && told.contains("are new: 1 conversation, 3 turns"), "{told}{complaint}");
    let exported = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(run(there.path(), &["export"]).1, exported);
    let tokens = [("RECALLD_OPENWEBUI_JWT_SECRET_ENV", "HUSH"), ("HUSH", "a secret of some length")];
    let (code, owned, complaint) = run_with(there.path(), &["export"], &tokens);
    assert_eq!((code, owned), (0, exported.clone()), "whoever owns the file has all of it: {complaint}");
    let half: String = exported.lines().take(3).map(|line| format!("{line}\n")).collect();
    std::fs::write(here.path().join("half.jsonl"), half).expect("written");
    let (code, _, complaint) = run(there.path(), &["import", &here.path().join("half.jsonl").display().to_string()]);
    assert!(code == 1 && complaint.contains("no last line"), "{code} {complaint}");
}
