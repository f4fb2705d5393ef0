//! Files of each kind that a reader of texts takes; those in containers are made by `tests/it/knowledge`.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(name: &str, text: &str, expected: &[&str]) {
    let parsed = parse(text.as_bytes(), &Hint { name: name.to_owned() }).expect("it can be read");
    let mark = |level: Option<u8>| level.map_or_else(String::new, |level| format!("h{level} "));
    let told: Vec<String> = parsed.blocks.iter().map(|block| format!("{}{}", mark(block.level), block.text)).collect();
    assert_eq!(told, expected);
}

#[test]
fn text_is_paragraphs() {
    check("a.txt", "One\ntwo.\r\n\r\n\r\nThree.", &["One\ntwo.", "Three."]);
}

#[test]
fn markdown_has_headings() {
    let text = "---\ntags: a\n---\n# Lamps #\nRed.\n\nOld\n===\n- a\n- b\n```\n# no heading\n```\n";
    check("a.md", text, &["h1 Lamps", "Red.", "h1 Old", "- a\n- b\n```\n# no heading\n```"]);
}

#[test]
fn a_page_is_what_a_reader_sees() {
    let page = "<!doctype html><html><head><title>Our &amp; shop</title><style>p{}</style></head><body><script>if(a<b)x()</script>
        <h2>Opening <b>hours</b></h2><p>From&nbsp;9&#58;00<br>to 17:00 &euro;5</p><ul><li>Mon<li>Tue</ul>
        <table><tr><th>Lamp</th><td>12</td></tr></table><!-- not this --> a < b";
    let expected = ["h2 Opening hours", "From 9:00\nto 17:00 €5", "- Mon\n- Tue", "Lamp | 12", "a < b"];
    check("x", page, &expected);
    assert_eq!(parse(page.as_bytes(), &Hint::default()).expect("read").title.as_deref(), Some("Our & shop"));
}

#[test]
fn rows_have_the_names_of_their_columns() {
    check("a.csv", "name;price\nLamp;12,50\n\"Chair; blue\";", &["name: Lamp; price: 12,50", "name: Chair; blue"]);
    check("a.csv", "1,2\n3,4", &["1; 2", "3; 4"]);
}

#[test]
fn json_is_told_by_its_names() {
    let text = r#"{"shop":"Lux","open":["Mon","Tue"],"lamps":[{"name":"Sol","watt":7},{"name":"Luna","parts":{"bulb":"E27"}}]}"#;
    check("a", text, &["shop: Lux; open: Mon, Tue", "name: Sol; watt: 7", "name: Luna", "bulb: E27"]);
    check("a.jsonl", "{\"a\":1}\n{\"a\":2}\n", &["a: 1", "a: 2"]);
}

#[test]
fn other_encodings_are_read() {
    let utf16: Vec<u8> = "\u{feff}Häuser".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(parse(&utf16, &Hint::default()).expect("read").blocks[0].text, "Häuser");
    assert_eq!(parse(b"caf\xe9 \x80 5", &Hint::default()).expect("read").blocks[0].text, "café € 5");
}

#[test]
fn what_is_no_text_is_told_as_what_it_is() {
    let error = |bytes: &[u8]| parse(bytes, &Hint::default()).expect_err("it cannot be read");
    assert!(matches!(error(b"\x89PNG\r\n\x1a\n"), ParseError::Unsupported { what } if what == "a picture"));
    assert!(matches!(error(&[0, 1, 2, 3]), ParseError::Unsupported { .. }));
    assert!(matches!(error(&[0xd0, 0xcf, 0x11, 0xe0, 0]), ParseError::Unsupported { .. }));
    assert!(matches!(error(b"PK\x03\x04 and no more"), ParseError::Broken { .. }));
    assert!(matches!(error(b"%PDF-1.7 and no more"), ParseError::Broken { .. }));
    assert!(matches!(error(&[0xff, 0xfe, 0]), ParseError::Broken { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600), name in "[a-z]{0,4}\\.?(csv|json|html|md|pdf)?") {
        let hint = Hint { name };
        for begin in [&b""[..], b"%PDF-1.4\n1 0 obj<<", b"PK\x03\x04", b"<html>", b"{\"a\":", b"\xff\xfe"] {
            let _ = parse(&[begin, &bytes].concat(), &hint);
        }
    }

    #[test]
    fn any_markup_is_read(text in "(<[a-z/!?]{0,6}( [a-z]=\"?)?>?|&[#a-z0-9]{0,9};?|[ -~é\n]|endstream|obj|BT|Tj|\\(|\\)|<<|>>|/[A-Z]){0,80}") {
        let _ = parse(format!("<html>{text}").as_bytes(), &Hint::default());
        let _ = parse(format!("%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Contents 3 0 R>>endobj 3 0 obj<<>>stream\n{text}").as_bytes(), &Hint::default());
        let mut reader = xml::Reader::new(&text);
        while let Ok(Some(_)) = reader.next() {}
    }
}
