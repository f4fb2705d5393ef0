//! Words that tell whose they are, and finding those that are where they should not be.

/// What every such word begins with. No language has it.
const MARK: &str = "zqx";

/// Letters that say whose a word is: two for the tenant, one for who of it.
pub(super) const CODE: usize = 3;

/// A word of its own for somebody: the code, a letter for the conversation, and one more.
pub(super) fn word(code: &str, conversation: usize, more: usize) -> String {
    format!("{MARK}{code}{}{}", letter(conversation), letter(more))
}

/// A small number as a letter.
pub(super) fn letter(n: usize) -> char {
    char::from(b'a' + (n % 26) as u8)
}

/// Every such word in a text, in whatever case, whole or cut off.
pub(super) fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let tails = text.match_indices(MARK).map(|(at, _)| &text[at + MARK.len()..]);
    tails.map(|tail| tail.chars().take_while(char::is_ascii_lowercase).take(CODE + 2).collect()).collect()
}

/// Words in a text that are not of whoever has this code. One that is cut off is judged by what is left of it.
pub(super) fn foreign(text: &str, code: &str) -> Vec<String> {
    words(text).into_iter().filter(|word| !belongs(word, code)).collect()
}

fn belongs(word: &str, code: &str) -> bool {
    let shown = &word[..word.len().min(CODE)];
    code.starts_with(shown)
}

/// Whether the words of a text are of several people.
pub(super) fn is_mixed(text: &str) -> bool {
    let words = words(text);
    let longest = words.iter().max_by_key(|word| word.len()).map(|word| word[..word.len().min(CODE)].to_owned());
    longest.is_some_and(|code| words.iter().any(|word| !belongs(word, &code)))
}

/// What a stream of events says when its pieces are put together: a word may be cut between two of them.
pub(super) fn spoken(body: &str) -> String {
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|event| serde_json::from_str::<serde_json::Value>(event).ok());
    let piece = |event: serde_json::Value| {
        let said =
            event["choices"][0]["delta"]["content"].as_str().or(event["text"].as_str()).or(event["delta"].as_str());
        said.map(str::to_owned)
    };
    events.filter_map(piece).collect()
}

#[test]
fn foreign_words_are_found_in_every_form() {
    let (own, other, neighbour) = (word("aba", 0, 1), word("acb", 2, 3), word("abb", 0, 1));
    assert_eq!(foreign(&format!("I know {own} and \"{}\".", own.to_uppercase()), "aba"), Vec::<String>::new());
    assert_eq!(foreign(&format!("{own} {other}"), "aba"), ["acbcd"]);
    assert_eq!(foreign(&format!("x{}y", neighbour.to_uppercase()), "aba").len(), 1, "another user of the same tenant");
    assert_eq!(foreign("cut off: zqxac…", "aba"), ["ac"]);
    assert_eq!(foreign("cut off: zqxab…", "aba"), Vec::<String>::new());
    assert!(is_mixed(&format!("{own} {neighbour}")) && !is_mixed(&format!("{own} {own} zqxab…")) && !is_mixed("none"));
    let event = |text: &str| format!("data: {}\n\n", serde_json::json!({"choices": [{"delta": {"content": text}}]}));
    let stream = [event("I know zq"), event("xac"), event("bcd"), "data: [DONE]\n\n".into()].concat();
    assert_eq!((foreign(&stream, "aba").len(), foreign(&spoken(&stream), "aba").len()), (0, 1));
}
