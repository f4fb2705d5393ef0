//! Settings, names and roles as the documents write them.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::process::recalld;

/// What a command answers in an empty folder with these settings.
fn run(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    recalld(folder, arguments, settings).stdout(Stdio::piped()).output().expect("it runs")
}

/// The settings in force.
fn shown(folder: &Path, settings: &[(&str, &str)]) -> Value {
    let output = run(folder, &["config", "show", "--json"], settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A value as a variable writes it: text without quotes, a list with commas.
fn as_variable(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(as_variable).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[test]
fn every_setting_can_be_written_as_a_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let defaults = shown(folder.path(), &[]);
    for (name, value) in defaults.as_object().expect("settings") {
        let (variable, text) = (format!("RECALLD_{}", name.to_uppercase()), as_variable(value));
        assert_eq!(shown(folder.path(), &[(&variable, &text)])[name], *value, "{variable}={text}");
    }
}

#[test]
fn a_variable_has_the_type_of_its_setting_whatever_the_file_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let megabytes =
        |text: &str| shown(folder.path(), &[("RECALLD_SESSION_MEMORY_MAX_MB", text)])["session_memory_max_mb"].clone();
    assert_eq!((megabytes("10"), megabytes("2.5")), (json!(10.0), json!(2.5)));
    std::fs::write(folder.path().join("recalld.toml"), "session_memory_max_mb = 5").expect("written");
    assert_eq!((megabytes("10"), megabytes("2.5")), (json!(10.0), json!(2.5)));
    for text in ["nan", "inf", "ten", "0"] {
        let refused = run(folder.path(), &["config", "check"], &[("RECALLD_SESSION_MEMORY_MAX_MB", text)]);
        assert!(!refused.status.success(), "{text}");
    }
}

/// As in docs/cli.md.
#[test]
fn a_list_in_a_variable_is_written_with_commas() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        ("RECALLD_USER_HEADERS", "X-Who, X-OpenWebUI-User-Id"),
        ("RECALLD_SESSION_HEADERS", "X-Chat"),
        ("RECALLD_MODEL_ALIASES", "small=qwen3, large=gpt-5"),
    ];
    let shown = shown(folder.path(), &settings);
    assert_eq!(shown["user_headers"], json!(["X-Who", "X-OpenWebUI-User-Id"]));
    assert_eq!(shown["session_headers"], json!(["X-Chat"]));
    assert_eq!(shown["model_aliases"], json!(["small=qwen3", "large=gpt-5"]));
}
