//! What is known about a user, and what waits for somebody to look at it.

use serde_json::Value;

use super::Check;
use crate::cli::table::counted;

/// Turns that may wait while the background keeps up.
const WAITING_MAX: u64 = 1_000;

/// What a server says about facts. One from before there were facts does not say.
pub(super) fn judge(stats: &Value) -> Option<Check> {
    let count = |name: &str| stats[name].as_u64();
    let (facts, held_back) = (count("facts")?, count("facts_quarantined").unwrap_or_default());
    let waiting = count("turns_to_understand").unwrap_or_default();
    let told = format!("{} of yours; {}", counted(facts, "fact"), refused(&stats["facts_refused"]));
    Some(match (held_back, waiting) {
        (_, waiting) if waiting > WAITING_MAX => {
            Check::warn("facts", format!("{told}; {} yet to be understood", counted(waiting, "turn")))
        }
        (0, _) => Check::ok("facts", told),
        (held_back, _) => {
            let look = "`recalld facts list --status quarantined` shows them";
            Check::warn("facts", format!("{told}; {} kept from every prompt: {look}", counted(held_back, "fact")))
        }
    })
}

/// What was not taken, the most frequent reason first.
fn refused(by_reason: &Value) -> String {
    let mut reasons: Vec<(&String, u64)> =
        by_reason.as_object().into_iter().flatten().filter_map(|(name, n)| Some((name, n.as_u64()?))).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all: u64 = reasons.iter().map(|(_, count)| count).sum();
    let why: Vec<String> = reasons.iter().map(|(name, count)| format!("{} {count}", name.replace('_', " "))).collect();
    match all {
        0 => "nothing was mistaken for one".to_owned(),
        all => format!("{all} looked like one and were none ({})", why.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Status;
    use serde_json::json;

    #[test]
    fn what_is_known_is_told_and_what_is_held_back_is_a_warning() {
        assert!(judge(&json!({"turns": 1})).is_none(), "an older server");
        let stats = json!({"facts": 2, "facts_quarantined": 0, "turns_to_understand": 3,
                           "facts_refused": {"question": 1, "task_text": 4}});
        let well = judge(&stats).expect("it says");
        assert_eq!(well.status, Status::Ok);
        assert_eq!(well.detail, "2 facts of yours; 5 looked like one and were none (task text 4, question 1)");
        let held = judge(&json!({"facts": 0, "facts_quarantined": 1})).expect("it says");
        assert!(held.status == Status::Warn && held.detail.contains("--status quarantined"), "{}", held.detail);
        assert_eq!(judge(&json!({"facts": 0, "turns_to_understand": 5_000})).expect("it says").status, Status::Warn);
    }
}
