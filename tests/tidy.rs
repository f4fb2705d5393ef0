//! The house keeps its floors: a module uses what lies below it, and on its own floor only what its
//! arrow points to. A new arrow is a small event; it comes with a line in `ARCHITECTURE.md`.

use std::fs;
use std::path::{Path, PathBuf};

/// Floors from the top. On one floor `a → b` allows `a` to use `b` and everything after it in the list;
/// `a, b` are strangers.
const FLOORS: [&str; 7] = [
    "cli → config → api",
    "worker → turn, digest, lifecycle, review",
    "memory → recall, courier",
    "store",
    "takeout → clarify → knowledge → fact → live → episode → topic → session, tenant, webhook",
    "model",
    "message, scope, job, clock, id, tokens, language, period, meter, mode, spelling, quick, seldom, kernel, beside",
];

/// Arrows between neighbours that the lists above cannot say, each with its reason.
const EXTRA_ARROWS: [(&str, &str); 8] = [
    // Pieces of text are remembered by a quick hash.
    ("tokens", "quick"),
    // A job names itself and its session.
    ("job", "id"),
    // A user may be known by nothing but their session.
    ("scope", "id"),
    // The doors are made with settings.
    ("api", "config"),
    // A tenant may have words of its own for templates.
    ("tenant", "session"),
    ("worker", "lifecycle"),
    // A webhook tells of a session that ended.
    ("webhook", "session"),
    // A tenant may have a webhook of its own.
    ("tenant", "webhook"),
];

/// The places that may build a scope; see `scope.rs`.
const SCOPE_BUILDERS: [&str; 2] = ["api/identity.rs", "scope.rs"];

const FILE_LINES_MAX: usize = 600;

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("src is readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("sources are text");
                let name = path.strip_prefix("src").expect("below src").to_owned();
                found.push((name, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("src"), &mut found);
    assert!(found.len() > 20, "the walk finds the sources");
    found
}

/// The module a file belongs to; `None` for the two roots.
fn module(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_str()?;
    let name = first.trim_end_matches(".rs");
    (!matches!(name, "lib" | "main")).then(|| name.to_owned())
}

/// (floor, group on the floor, place in the chain) of a module.
fn place(name: &str) -> (usize, usize, usize) {
    for (floor, line) in FLOORS.iter().enumerate() {
        for (group, chain) in line.split(", ").enumerate() {
            if let Some(at) = chain.split(" → ").position(|module| module == name) {
                return (floor, group, at);
            }
        }
    }
    panic!("`{name}` stands on no floor: add it to FLOORS here and to ARCHITECTURE.md");
}

fn may_use(user: &str, used: &str) -> bool {
    let ((floor, group, at), (used_floor, used_group, used_at)) = (place(user), place(used));
    user == used
        || floor < used_floor
        || (floor == used_floor && group == used_group && at < used_at)
        || EXTRA_ARROWS.contains(&(user, used))
}

/// A file without its comments and its tests.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
    before_tests.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Modules named in `crate::…` paths, grouped imports included.
fn used_modules(text: &str) -> Vec<String> {
    code(text)
        .split("crate::")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
        .filter(|name| !name.is_empty() && *name != "conformance")
        .map(str::to_owned)
        .collect()
}

#[test]
fn modules_use_only_what_lies_below() {
    for (path, text) in sources() {
        let Some(user) = module(&path) else { continue };
        for used in used_modules(&text) {
            assert!(may_use(&user, &used), "{}: `{user}` may not use `{used}`", path.display());
        }
    }
}

#[test]
fn scopes_are_built_in_few_places() {
    for (path, text) in sources() {
        let name = path.display().to_string();
        let about_others = ["conformance", "bench", "tests"].iter().any(|part| name.contains(part));
        if code(&text).contains("Scope::new(") && !about_others {
            assert!(SCOPE_BUILDERS.contains(&name.as_str()), "{name} builds a scope");
        }
        let reads = code(&text).contains("Scope::as_stored(");
        assert!(!reads || name.starts_with("store/"), "{name} takes a scope that only the store knows");
    }
}

#[test]
fn files_are_of_readable_length() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines; where is the seam?", path.display());
    }
}

#[test]
fn every_file_says_what_it_is() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!"), "{} does not begin with what it is", path.display());
    }
}

#[test]
fn nothing_is_left_for_later_in_silence() {
    for (path, text) in sources() {
        for mark in ["todo!(", "unimplemented!(", "FIXME", "XXX"] {
            assert!(!text.contains(mark), "{} contains {mark}", path.display());
        }
    }
}
