//! The table against the reference, and against whatever people may type.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|value| value * value).sum::<f32>().sqrt()
}

fn likeness(one: &str, other: &str) -> f32 {
    let table = StaticTable::shared();
    table.embed(one).iter().zip(table.embed(other)).map(|(a, b)| a * b).sum()
}

#[test]
fn every_reference_text_is_read_to_the_row() {
    let reference: Value = serde_json::from_str(include_str!("../../../../tests/data/embed/reference_vectors.json"))
        .expect("the reference is JSON");
    let texts = reference["texts"].as_array().expect("a list");
    assert_eq!(texts.len(), 50);
    for case in texts {
        check_reference(case);
    }
}

#[track_caller]
fn check_reference(case: &Value) {
    let text = case["text"].as_str().expect("a text");
    let rows = case["rows"].as_array().expect("rows").iter().map(|row| row.as_u64().expect("a row") as u32).collect();
    let table = StaticTable::shared();
    assert_eq!(table.rows(text), (case["english"] == true, rows), "{text}");
    assert_eq!(table.reads_as_english(text), case["english"] == true, "{text}");
    for (got, expected) in table.embed(text).iter().zip(case["first8"].as_array().expect("values")) {
        let expected = expected.as_f64().expect("a number") as f32;
        assert!((got - expected).abs() < 1e-5, "{text}: {got} is not {expected}");
    }
}

#[test]
fn meanings_meet_across_languages() {
    let question = "Waar vind ik de factuur van vorige maand?";
    let same = likeness(question, "Where do I find last month's invoice?");
    for other in ["The weather was lovely at the beach.", "Where do I find the train station?", "My dog is ill."] {
        let other_likeness = likeness(question, other);
        assert!(same > other_likeness + 0.1, "{other}: {other_likeness}, its translation: {same}");
    }
}

#[test]
fn a_word_alone_is_what_it_is_in_a_text() {
    let table = StaticTable::shared();
    assert_eq!(table.word("invoice", true), Some(table.embed("invoice")));
    // Two rows of one spelling: to die, and a Dutch "that".
    assert_ne!(table.word("die", true), table.word("die", false));
    assert_eq!(table.word("", true), None);
    assert_eq!(table.word("🦀🦀", true), None);
}

#[test]
fn what_says_nothing_is_zero() {
    let table = StaticTable::shared();
    for text in ["", " \n\t", "\u{301}\u{302}", "\u{0}\u{7}\u{200b}", "🦀", &"x".repeat(101)] {
        assert_eq!(table.embed(text), vec![0.0; DIMENSIONS], "{text:?}");
    }
}

#[test]
fn only_the_beginning_of_a_book_is_read() {
    let page = "a word ".repeat(TEXT_BYTES_MAX / 7 + 1);
    let book = format!("{}{}", &page[..TEXT_BYTES_MAX], "invoice ".repeat(100_000));
    assert_eq!(StaticTable::shared().embed(&book), StaticTable::shared().embed(&page[..TEXT_BYTES_MAX]));
}

#[test]
fn no_text_takes_for_ever() {
    // Words that come apart letter by letter, accents without letters, scripts without rows.
    let worst = ["q\u{df}x\u{f8}".repeat(25) + " ", "\u{301}".into(), "ꯀꯁ".into(), "漢".into(), "\u{fdfa}".into()];
    for part in worst {
        let text = part.repeat(1024 * 1024 / part.len());
        let before = Instant::now();
        let vector = StaticTable::shared().embed(&text);
        assert!(before.elapsed() < Duration::from_secs(5), "{part:?} took {:?}", before.elapsed());
        assert!(vector.iter().all(|value| value.is_finite()));
    }
}

#[test]
fn every_row_can_be_found_and_is_finite() {
    let table = StaticTable::shared();
    assert_eq!(table.layout.rows(), 113_523);
    for row in 0..table.layout.rows() as u32 {
        assert!(table.layout.scale(row).is_finite());
    }
    let lines = table.layout.english_words.split(|byte| *byte == b'\n');
    for (row, word) in lines.enumerate() {
        assert_eq!(table.index.find(word).english, Some(row as u32));
    }
    let lines = table.layout.other_words.split(|byte| *byte == b'\n');
    for (row, word) in lines.enumerate() {
        assert_eq!(table.index.find(word).other, Some((row + table.layout.english_rows()) as u32));
    }
}

#[test]
fn a_damaged_table_is_refused() {
    let refused = |bytes: &'static [u8]| StaticTable::read(bytes).map(|_| ()).expect_err("damaged");
    let got = ASSET.len() - 1;
    assert_eq!(refused(&ASSET[..got]), TableError::Size { expected: ASSET.len(), got });
    assert_eq!(refused(b""), TableError::NotATable);
    assert_eq!(refused(b"SEMBML\0\x01\0"), TableError::NotATable);
    assert_eq!(refused(&[0; 64]), TableError::NotATable);
}

#[test]
fn a_table_that_miscounts_its_words_is_refused() {
    let mut bytes = b"SEMBML\0\x01".to_vec();
    // Two English rows, one line of words.
    for number in [2_u32, 0, 256, 3, 0, 4] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"one");
    bytes.resize(bytes.len() + 2 + 8 + 2 * DIMENSIONS, 0);
    let refused = StaticTable::read(bytes.leak()).map(|_| ()).expect_err("miscounted");
    assert_eq!(refused, TableError::Words { rows: 2, words: 1 });
}

#[tokio::test]
async fn the_embedder_is_the_table() {
    let (embedder, texts) = (Builtin::default(), ["one", "", "twee"].repeat(20));
    let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
    let vectors = embedder.embed(&texts).await.expect("it cannot fail");
    assert_eq!(vectors.len(), texts.len());
    assert_eq!(Some(vectors[2].clone()), embedder.at_once("twee"));
    assert_eq!((embedder.id().as_str(), embedder.dimensions()), ("builtin-256-1", vectors[0].len()));
}

/// `cargo test --release --lib embed::builtin -- --ignored --nocapture` tells how fast it is.
#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout)]
fn speed() {
    let best = |what: &dyn Fn()| {
        let once = || {
            let before = Instant::now();
            what();
            before.elapsed()
        };
        (0..50).map(|_| once()).min().expect("some")
    };
    let first = Instant::now();
    drop(StaticTable::read(ASSET));
    println!("load {:?} the first time, {:?} at best", first.elapsed(), best(&|| drop(StaticTable::read(ASSET))));
    let table = StaticTable::shared();
    let dutch = "Waar vind ik het veiligheidsinformatieblad voor de handschoenen die wij vorige maand bij jullie \
                 besteld hebben voor de bouwplaats?";
    let english = "Can you remind me which database we chose for the new project and why we did not take the other?";
    let nasty = ("qßxø".repeat(25) + " ").repeat(400);
    for text in [dutch, english, "invoice", &dutch.repeat(400), &nasty] {
        let times = 1 + 100_000 / text.len();
        let each = best(&|| (0..times).for_each(|_| drop(table.embed(text)))) / times as u32;
        println!("{each:?} for {} rows of {} bytes", table.rows(text).1.len(), text.len());
    }
}

proptest! {
    #[test]
    fn any_string_has_a_direction_or_none(text in "\\PC*|[a-zß-ÿ ,.']{0,200}|(?s).{0,200}") {
        let vector = StaticTable::shared().embed(&text);
        let length = length(&vector);
        prop_assert_eq!(vector.len(), DIMENSIONS);
        prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-4, "{}", length);
        let bare = text.to_lowercase();
        let word = StaticTable::shared().word(&bare, text.len() % 2 == 0);
        prop_assert!(word.is_none_or(|word| word.iter().all(|value| value.is_finite())));
    }
}

#[test]
fn the_bytes_of_a_word_are_its_vector() {
    let table = StaticTable::shared();
    let words = [("dog", 1.0), ("lisbon", 1.0), ("snorkelling", OF_PIECES), ("veiligheid", 1.0), ("hond", 1.0)];
    for (word, expected) in words {
        let english = !matches!(word, "veiligheid" | "hond");
        let vector = table.word(word, english).expect("a known word");
        let mut bytes = Vec::new();
        let scale = table.word_bytes(word, english, 128, &mut bytes).expect("a known word");
        let length = vector[..128].iter().map(|value| value * value).sum::<f32>().sqrt();
        let cosine: f32 =
            bytes.iter().zip(&vector).map(|(byte, value)| f32::from(*byte) * scale * value / length).sum();
        assert!((cosine - expected).abs() < 0.001, "{word}: {cosine}");
    }
    assert_eq!(table.word_bytes("\u{1f600}", true, 128, &mut Vec::new()), None);
}

#[test]
fn rare_words_are_told_from_common_ones() {
    let table = StaticTable::shared();
    let rarity = ["the", "album", "harness", "zyzzogeton"].map(|word| table.rarity(word));
    assert!(rarity.is_sorted() && rarity[0] < 0.1 && rarity[3] == 1.0, "{rarity:?}");
    assert_eq!(table.rarity("schilderij"), 0.5, "a word of another language");
}
