//! The description of the doors, checked in for people who write clients.

use std::path::Path;

/// Section 9: the page is generated from the handlers, and the copy in `docs/` is the same.
#[test]
fn the_checked_in_description_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
    let current = recalld::api::openapi_json();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("docs can be made");
        std::fs::write(&path, &current).expect("docs/openapi.json can be written");
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == current,
        "docs/openapi.json is out of date; write it again with `UPDATE=1 cargo test openapi`"
    );
}
