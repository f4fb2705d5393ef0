//! What was chosen, in words: for the model, for search, and for whoever asks what was understood.

use std::borrow::Cow;

use super::{By, ChoiceOption, Clarification, Resolution};

/// How much of a question, and of what was chosen, the model is told: it was shown both, and a line has little room. Bytes,
/// because a text has at most as many tokens.
const QUESTION_BYTES_MAX: usize = 160;
const LIST_BYTES_MAX: usize = 240;

/// What an answer to a clarification came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// What was asked.
    pub question: String,
    /// What was chosen; empty when none of it is wanted.
    pub options: Vec<ChoiceOption>,
    /// What told.
    pub by: By,
    /// A line for the model.
    pub told: String,
    /// The question with its answer, to be searched for; `None` when the answer says as much itself.
    pub standalone: Option<String>,
}

/// What a resolution means.
pub fn chosen(clarification: &Clarification, resolution: &Resolution) -> Chosen {
    let options: Vec<ChoiceOption> =
        resolution.options.iter().filter_map(|at| clarification.options.get(*at)).cloned().collect();
    let told = told(clarification, &options);
    let standalone = (!options.is_empty()).then(|| standalone(clarification, &options));
    Chosen { question: clarification.question.clone(), options, by: resolution.by, told, standalone }
}

fn told(clarification: &Clarification, options: &[ChoiceOption]) -> String {
    let list =
        |options: &[ChoiceOption]| short(&options.iter().map(named).collect::<Vec<_>>().join(" and "), LIST_BYTES_MAX);
    let question = quoted(&short(&clarification.question, QUESTION_BYTES_MAX));
    match options {
        [] => format!("The user was asked: {question} and chose none of: {}.", list(&clarification.options)),
        _ => format!("The user was asked: {question} and chose: {}.", list(options)),
    }
}

/// A text, or its beginning.
fn short(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", text[..end].trim_end())
}

/// An option and what is known of it.
fn named(option: &ChoiceOption) -> String {
    let label = quoted(&option.label);
    let attribute = |(name, value): (&String, &String)| match name.as_str() {
        DETAILS => value.clone(),
        _ => format!("{name}: {value}"),
    };
    let known: Vec<String> = option.attributes.iter().map(attribute).collect();
    if known.is_empty() { label } else { format!("{label} ({})", known.join(", ")) }
}

/// What an attribute is called that a list said of its item.
pub(super) const DETAILS: &str = "details";

/// Quotation marks of its own would end the quotation.
fn quoted(text: &str) -> String {
    let text: Cow<'_, str> = if text.contains('"') { text.replace('"', "'").into() } else { text.into() };
    format!("\"{text}\"")
}

/// The question, asked about what was chosen alone.
fn standalone(clarification: &Clarification, options: &[ChoiceOption]) -> String {
    let question = &clarification.question;
    let labels = options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>().join(", ");
    // Where the question lists its options, the list becomes what was chosen.
    let places: Option<Vec<usize>> = clarification.options.iter().map(|option| question.find(&option.label)).collect();
    let listed = places.and_then(|places| {
        let last = clarification.options.last()?;
        let (from, to) = (places.iter().min()?, places.last()? + last.label.len());
        (from < &to).then(|| format!("{}{labels}{}", &question[..*from], &question[to..]))
    });
    listed.unwrap_or_else(|| format!("{question} {labels}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn of(question: &str, labels: &[&str]) -> Clarification {
        let options = labels.iter().map(|label| ChoiceOption::named(*label)).collect();
        Clarification::new(question, options, Timestamp::UNIX_EPOCH).expect("a choice")
    }

    #[track_caller]
    fn check(clarification: &Clarification, options: &[usize], told: &str, standalone: Option<&str>) {
        let chosen = chosen(clarification, &Resolution { options: options.to_vec(), by: By::Name });
        assert_eq!((chosen.told.as_str(), chosen.standalone.as_deref()), (told, standalone));
    }

    #[test]
    fn what_was_chosen_is_told() {
        let mut mugs = of("Which one would you like?", &["Blue \"sea\" mug", "Red mug"]);
        mugs.options[1].attributes.insert("price".into(), "12 EUR".into());
        mugs.options[1].attributes.insert(DETAILS.into(), "ceramic".into());
        check(
            &mugs,
            &[0],
            "The user was asked: \"Which one would you like?\" and chose: \"Blue 'sea' mug\".",
            Some("Which one would you like? Blue \"sea\" mug"),
        );
        check(
            &mugs,
            &[0, 1],
            "The user was asked: \"Which one would you like?\" and chose: \"Blue 'sea' mug\" and \"Red mug\" (ceramic, price: 12 EUR).",
            Some("Which one would you like? Blue \"sea\" mug, Red mug"),
        );
        check(
            &mugs,
            &[],
            "The user was asked: \"Which one would you like?\" and chose none of: \"Blue 'sea' mug\" and \"Red mug\" (ceramic, price: 12 EUR).",
            None,
        );
    }

    #[test]
    fn a_long_story_is_cut_short() {
        let many = of(&"why ".repeat(100), &[&"x".repeat(200), &"y".repeat(200)]);
        let told = chosen(&many, &Resolution { options: vec![0, 1], by: By::All }).told;
        let (question, list) = told.split_once(" and chose: ").expect("both");
        assert!(question.ends_with("why…\"") && question.chars().count() < QUESTION_BYTES_MAX + 30, "{question}");
        assert!(list.ends_with("y….") && list.chars().count() < LIST_BYTES_MAX + 5, "{list}");
    }

    #[test]
    fn a_list_in_the_question_becomes_the_choice() {
        let inline = of("Which one: tea, coffee or water?", &["tea", "coffee", "water"]);
        let told = "The user was asked: \"Which one: tea, coffee or water?\" and chose: \"coffee\".";
        check(&inline, &[1], told, Some("Which one: coffee?"));
    }
}
