//! Names in a text, as far as capitals show them.

/// Capitalised words of two letters or more that do not begin a sentence, in lower case.
pub fn inner_capitals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = '.';
    for part in text.split_whitespace() {
        let word: String =
            part.chars().skip_while(|c| !c.is_alphanumeric()).take_while(|c| c.is_alphanumeric()).collect();
        let opened = part.chars().next().filter(|c| !c.is_alphanumeric());
        let preceded_by = opened.unwrap_or(before);
        let begins = matches!(preceded_by, '.' | '!' | '?' | ':' | '"' | '“' | '*');
        let capital = word.chars().next().is_some_and(char::is_uppercase);
        if capital && !begins && word.chars().nth(1).is_some() {
            found.push(word.to_lowercase());
        }
        before = part.chars().next_back().unwrap_or('.');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_inside_sentences_are_names() {
        assert_eq!(inner_capitals("We met Ann in Lisbon. Then I left."), ["ann", "lisbon"]);
        assert_eq!(inner_capitals("Hello! \"Bob\" and *Carl* went"), Vec::<String>::new());
    }
}
