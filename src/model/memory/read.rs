//! Finding the object in an answer: behind thoughts, in a code fence, between polite words.

use serde_json::Value;

/// Places in an answer that are tried as the beginning of an object.
const TRIED_MAX: usize = 64;

/// What models put around their thoughts.
const THOUGHTS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>")];

/// The objects in an answer, in the order in which they should be tried: the last first, because what was meant comes
/// after what was tried out.
pub(super) fn objects(answer: &str) -> Vec<Value> {
    let text = without_thoughts(answer);
    if let Ok(whole @ Value::Object(_)) = serde_json::from_str(text.trim()) {
        return vec![whole];
    }
    let mut found = Vec::new();
    let (mut from, mut tried) = (0, 0);
    while let Some(at) = text[from..].find('{').map(|at| from + at).filter(|_| tried < TRIED_MAX) {
        tried += 1;
        let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        from = match stream.next() {
            Some(Ok(object)) => {
                found.push(object);
                at + stream.byte_offset()
            }
            _ => at + 1,
        };
    }
    found.reverse();
    found
}

/// An answer without what was thought aloud; thoughts that never end leave nothing.
fn without_thoughts(answer: &str) -> &str {
    let mut text = answer;
    for (begin, end) in THOUGHTS {
        if let Some(at) = text.rfind(end) {
            text = &text[at + end.len()..];
        } else if text.trim_start().starts_with(begin) {
            text = "";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(answer: &str, expected: &str) {
        let found: Vec<String> = objects(answer).iter().map(Value::to_string).collect();
        assert_eq!(found.join(" "), expected, "{answer}");
    }

    #[test]
    fn an_object_is_found_wherever_it_is() {
        check(r#"{"a":1}"#, r#"{"a":1}"#);
        check(" \n{\"a\":{\"b\":[1]}}\n", r#"{"a":{"b":[1]}}"#);
        check("```json\n{\"a\":1}\n```", r#"{"a":1}"#);
        check("Sure! Here you are: {\"a\":\"}{\"} Anything else?", r#"{"a":"}{"}"#);
        check("<think>perhaps {\"a\":0}?</think>{\"a\":1}", r#"{"a":1}"#);
        check("<thinking>hm</thinking>\n```\n{\"a\":1}\n```", r#"{"a":1}"#);
        check("thoughts without a beginning</think> {\"a\":1}", r#"{"a":1}"#);
        check("first {\"a\":1}, no: {\"a\":2}", r#"{"a":2} {"a":1}"#);
        check("{ a draft {\"a\":1}", r#"{"a":1}"#);
    }

    #[test]
    fn what_holds_no_object_gives_none() {
        check("", "");
        check("I cannot do that.", "");
        check("[1, 2]", "");
        check("{\"a\":", "");
        check("<think>{\"a\":1} and then", "");
        check(&"{".repeat(10_000), "");
    }

    proptest! {
        #[test]
        fn no_answer_breaks_anything(answer in "[\\PC{}\"\\\\:<>/a-k]{0,200}") {
            prop_assert!(objects(&answer).iter().all(Value::is_object));
        }

        #[test]
        fn words_around_it_do_not_hide_it(before in "[^{}<]{0,40}", after in "[^{}<]{0,40}") {
            prop_assert_eq!(objects(&format!("{before}{{\"a\":1}}{after}")).len(), 1);
        }
    }
}
