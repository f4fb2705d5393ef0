//! Whether a path stays below the URL that it is appended to.
//!
//! Servers and proxies disagree about what a step upwards is: some decode `%2f` before they look for `..`, some twice, some
//! take `\` for `/`, some cut parameters off (`..;x`) or blanks. A path that is a step upwards for any of them is one.

use percent_encoding::percent_decode;

/// How often a path is decoded to become plain. No client encodes one more often.
const ENCODINGS_MAX: usize = 4;

/// Whether some server could read a path, without its query, as one that leads above where it begins.
pub(crate) fn leads_upwards(path: &str) -> bool {
    let mut plain = path.as_bytes().to_vec();
    for _ in 0..ENCODINGS_MAX {
        let decoded: Vec<u8> = percent_decode(&plain).collect();
        if decoded == plain {
            // Overlong encodings of `.` and `/` are no UTF-8.
            return std::str::from_utf8(&plain).map_or(true, |text| text.split(['/', '\\']).any(is_step_upwards));
        }
        plain = decoded;
    }
    true
}

fn is_step_upwards(step: &str) -> bool {
    let name = step.split([';', '?', '#']).next().unwrap_or(step);
    name.trim_matches(|c: char| c.is_whitespace() || c.is_control()) == ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_upwards_are_found_however_they_are_written() {
        for path in [
            "..",
            "a/../b",
            "a/..%2fb",
            "a/..%5Cb",
            "a\\..\\b",
            "a/..;/b",
            "a/..;x=1/b",
            "a/..%3b/b",
            "a/%2e%2E/b",
            "a/.%2e/b",
            "a/%252e%252e%252fb",
            "a/%25252e%25252e/b",
            "a/%2525252525252e./b",
            "a/..%00/b",
            "a/..%20/b",
            "a/..%3f/b",
            "a/%c0%ae%c0%ae/b",
        ] {
            assert!(leads_upwards(path), "{path}");
        }
        for path in
            ["", "models/meta%2Fllama", "models/qwen2.5..1", "a/.b/...", "a//b/.", "files/100%25", "caf%C3%A9;v=1"]
        {
            assert!(!leads_upwards(path), "{path}");
        }
    }
}
