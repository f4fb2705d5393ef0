//! Conversations against alignment: examples first, then any conversation.

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::id::{CountedIds, Ids};
use crate::message::{Message, Role};

/// A store in memory that does what alignment says.
#[derive(Default)]
struct Notebook {
    held: Held,
    ids: CountedIds,
    /// Texts by number: question and current answer.
    texts: Vec<(String, Option<String>)>,
    /// Texts of revisions by (number, revision).
    old: Vec<(u64, u32, Option<String>)>,
}

fn said(role: Role, text: &str) -> Message {
    Message::new(role, text, Timestamp::UNIX_EPOCH)
}

fn print(role: Role, text: &str) -> Fingerprint {
    Fingerprint::of(&said(role, text))
}

/// A client's list: questions and answers in turn, the last one a question.
fn asked(texts: &[String], ids: ClientIds) -> Asked {
    let roles = [Role::User, Role::Assistant].into_iter().cycle();
    let messages = texts.iter().zip(roles).map(|(text, role)| said(role, text)).collect();
    Asked::read(messages, ids, false).expect("a question")
}

impl Notebook {
    /// Takes a request, answers it with `answer`, and says what was done.
    fn take(&mut self, request: &Asked, answer: &str) -> Step {
        let alignment = align(&self.held, request);
        let shift = alignment.shift(&self.held);
        self.held.mode = alignment.mode;
        for turn in &mut self.held.turns {
            turn.visible = (turn.visible || shift.show.contains(&turn.number)) && !shift.hide.contains(&turn.number);
        }
        shift.activate.iter().for_each(|(number, revision)| self.activate(*number, Some(*revision)));
        match &alignment.step {
            Step::Append { parent, import } => {
                let mut parent = *parent;
                for exchange in &request.exchanges[*import..] {
                    let answer = exchange.messages.get(1).map(|message| message.text.clone());
                    parent = self.add(parent, &exchange.messages[0].text, answer, ClientIds::default());
                }
                self.add(parent, &request.open[0].text, Some(answer.to_owned()), request.ids.clone());
            }
            Step::Revise(id) => self.revise(*id, answer, &request.ids),
            Step::Continue(_) | Step::Repeat(_) => {}
        }
        alignment.step
    }

    fn add(&mut self, parent: u64, question: &str, answer: Option<String>, ids: ClientIds) -> u64 {
        let number = self.held.turns.len() as u64 + 1;
        self.held.turns.push(Outline {
            id: self.ids.turn(Timestamp::UNIX_EPOCH),
            number,
            parent,
            visible: true,
            status: TurnStatus::Complete,
            question: print(Role::User, question),
            answer: answer.as_deref().map(|text| print(Role::Assistant, text)),
            revisions: Vec::new(),
            ids,
            open_calls: Vec::new(),
            attempt: 0,
        });
        self.texts.push((question.to_owned(), answer));
        number
    }

    fn revise(&mut self, id: TurnId, answer: &str, ids: &ClientIds) {
        let turn = self.held.turns.iter_mut().find(|turn| turn.id == id).expect("a known turn");
        let revision = turn.revisions.len() as u32 + 1;
        turn.revisions.push((revision, turn.answer));
        turn.answer = Some(print(Role::Assistant, answer));
        turn.ids.answer.clone_from(&ids.answer);
        turn.ids.key.clone_from(&ids.key);
        let text = &mut self.texts[turn.number as usize - 1].1;
        self.old.push((turn.number, revision, text.replace(answer.to_owned())));
    }

    /// Shows an older answer again: the two change places.
    fn activate(&mut self, number: u64, revision: Option<u32>) {
        let Some(revision) = revision else { return };
        let turn = &mut self.held.turns[number as usize - 1];
        let place = turn.revisions.iter_mut().find(|(n, _)| *n == revision).expect("a known revision");
        std::mem::swap(&mut place.1, &mut turn.answer);
        let old = self.old.iter_mut().find(|(n, r, _)| (*n, *r) == (number, revision)).expect("its text");
        std::mem::swap(&mut old.2, &mut self.texts[number as usize - 1].1);
    }

    /// What is visible, in order.
    fn visible(&self) -> Vec<String> {
        let shown = self.held.turns.iter().filter(|turn| turn.visible);
        let texts = shown.map(|turn| &self.texts[turn.number as usize - 1]);
        texts.flat_map(|(question, answer)| std::iter::once(question.clone()).chain(answer.clone())).collect()
    }

    /// Everything that was ever said, superseded and revised included.
    fn all_answers(&self) -> Vec<String> {
        let current = self.texts.iter().filter_map(|(_, answer)| answer.clone());
        current.chain(self.old.iter().filter_map(|(_, _, answer)| answer.clone())).collect()
    }
}

/// Each line is a request (texts separated by `/`, the last one the question), an arrow, and its answer, if it has one
/// yet. Answers the visible conversation, separated by `/`.
fn talk(script: &str, resends_history: bool) -> String {
    let mut notebook = Notebook::default();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, answer) = line.split_once("->").expect("an arrow");
        let texts: Vec<String> = request.split('/').map(|text| text.trim().to_owned()).collect();
        let request = Asked { resends_history, ..asked(&texts, ClientIds::default()) };
        notebook.take(&request, answer.trim());
        if let Some(last) = notebook.held.turns.last_mut().filter(|_| answer.trim().is_empty()) {
            (last.status, last.answer) = (TurnStatus::Pending, None);
        }
    }
    notebook.visible().join("/")
}

#[track_caller]
fn check(script: &str, visible: &str) {
    assert_eq!(talk(script, false), visible);
}

/// The same with a client that always sends everything.
#[track_caller]
fn check_resending(script: &str, visible: &str) {
    assert_eq!(talk(script, true), visible);
}

#[test]
fn a_client_that_sends_only_what_is_new_appends() {
    check("a -> 1\n b -> 2\n b -> 3", "a/1/b/2/b/3");
}

#[test]
fn a_client_that_resends_everything_appends_what_is_new() {
    check("a -> 1\n a/1/b -> 2\n a/1/b/2/c -> 3", "a/1/b/2/c/3");
}

#[test]
fn the_same_question_after_the_same_history_is_asked_again() {
    check("a -> 1\n a/1/b -> 2\n a/1/b -> 2x", "a/1/b/2x");
    check_resending("a -> 1\n a/1/b -> 2\n a -> 1x", "a/1x");
}

#[test]
fn asking_the_same_thing_later_is_a_new_turn() {
    check("hi -> hello\n hi/hello/hi -> hello\n hi/hello/hi/hello/hi -> again?", "hi/hello/hi/hello/hi/again?");
}

#[test]
fn an_edited_question_replaces_what_followed() {
    check("a -> 1\n a/1/b -> 2\n a/1/b/2/c -> 3\n a/1/B -> 2x", "a/1/B/2x");
    check_resending("a -> 1\n a/1/b -> 2\n A -> 1x\n A/1x/d -> 4", "A/1x/d/4");
}

#[test]
fn a_message_without_history_cuts_nothing() {
    check("a -> 1\n a/1/b -> 2\n c -> 3", "a/1/b/2/c/3");
    check("a -> 1\n a/1/b -> 2\n a -> 1x", "a/1/b/2/a/1x");
    check("a -> 1\n a/1/b -> 2\n c -> 3\n c/3/d -> 4", "a/1/b/2/c/3/d/4");
}

#[test]
fn a_history_that_ends_at_no_stored_answer_cuts_nothing() {
    check("a -> 1\n a/1/b -> 2\n a/one/x -> 3", "a/1/b/2/x/3");
    check("a -> 1\n a/1/b -> 2\n a/1/x/9/y -> 3", "a/1/b/2/x/9/y/3");
    check("a -> 1\n a/1/b -> 2\n a/1/x/9/y -> 3\n a/1/x/9/y/3/z -> 4", "a/1/b/2/x/9/y/3/z/4");
    check("a -> 1\n a/1/b -> 2\n x/9/y -> 3", "a/1/b/2/y/3");
}

#[test]
fn a_question_that_is_being_answered_is_not_cut() {
    check("a -> 1\n a/1/b -> \n a/1/c -> 3", "a/1/b//c/3");
    check("a -> 1\n a/1/b -> \n a/1/c -> 3\n a/1/c/3/d -> 4", "a/1/b//c/3/d/4");
    check("a -> 1\n a/1/b -> 2\n a/1/b/2/c -> \n a/1/B -> 4", "a/1/b/2/c//B/4");
    check("a -> 1\n a/1/b -> \n a/1/c -> 3\n a/1/c/3/d -> 4\n a/1/c/3/D -> 5", "a/1/b//c/3/D/5");
    check(
        "a -> 1\n a/1/b -> \n a/1/c -> 3\n a/1/c/3/d -> 4\n a/1/c/3/D -> 5\n a/1/c/3/d/4/e -> 6",
        "a/1/b//c/3/d/4/e/6",
    );
}

#[test]
fn a_message_in_other_words_is_known_by_its_name() {
    let mut notebook = Notebook::default();
    let mut take = |texts: &[&str], id: &str, answer: &str| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let ids = ClientIds { question: Some(id.into()), ..ClientIds::default() };
        let named = Asked { names_session: true, ..asked(&texts, ids) };
        notebook.take(&named, answer);
        notebook.visible().join("/")
    };
    take(&["a"], "q1", "1");
    take(&["a", "1", "b"], "q2", "2");
    assert_eq!(take(&["B"], "q2", "3"), "a/1/B/3");
    assert_eq!(take(&["A"], "q1", "4"), "A/4");
    assert_eq!(take(&["a", "1", "b", "2", "c"], "q1", "5"), "a/1/b/2/c/5", "a history says more than a name");
}

/// How many of the first exchanges come before what is held, with so many numbers free.
#[track_caller]
fn check_before(script: &str, free: u64, request: &str, expected: usize) {
    let mut notebook = Notebook::default();
    for (question, answer) in script.split(' ').filter_map(|exchange| exchange.split_once('/')) {
        let parent = notebook.held.turns.len() as u64;
        notebook.add(parent, question, Some(answer.to_owned()), ClientIds::default());
    }
    notebook.held.earlier = free;
    let texts: Vec<String> = request.split('/').map(str::to_owned).collect();
    let unnamed = asked(&texts, ClientIds::default());
    let named = Asked { names_session: true, ..unnamed.clone() };
    assert_eq!(said_before(&notebook.held, &named), expected, "{request}");
    assert_eq!(said_before(&notebook.held, &unnamed), 0, "{request}");
}

#[test]
fn what_was_said_before_is_told_by_what_follows() {
    check_before("c/3", 2, "a/1/b/2/c/3/d", 2);
    check_before("c/3", 2, "b/2/c/3/d", 1);
    check_before("c/3 d/4", 2, "a/1/c/3/d/4/e", 1);
    check_before("c/3", 0, "a/1/b/2/c/3/d", 0);
    check_before("c/3", 2, "c/3/d", 0);
    check_before("c/3", 2, "d", 0);
    check_before("c/3 d/4", 2, "a/1/c/3/x/9/e", 0);
}

#[test]
fn returning_to_an_older_branch_shows_it_again() {
    check("a -> 1\n a/1/b -> 2\n a/1/B -> 2x\n a/1/b/2/c -> 3", "a/1/b/2/c/3");
}

#[test]
fn returning_to_an_older_answer_shows_it_again() {
    check("a -> 1\n a/1/b -> 2\n a/1/b -> 2x\n a/1/b/2/c -> 3", "a/1/b/2/c/3");
}

#[test]
fn a_client_that_forgets_its_beginning_loses_nothing_here() {
    check("a -> 1\n a/1/b -> 2\n a/1/b/2/c -> 3\n b/2/c/3/d -> 4\n c/3/d/4/e -> 5", "a/1/b/2/c/3/d/4/e/5");
    check("a -> 1\n a/1/b -> 2\n a/1/b/2/c -> 3\n summary/ok/c/3/d -> 4", "a/1/b/2/c/3/d/4");
    check("a -> 1\n a/1/b -> 2\n a/1/b/2/c -> 3\n a/1/c/3/d -> 4", "a/1/b/2/c/3/d/4");
}

#[test]
fn a_client_that_forgot_everything_is_not_believed_to_edit() {
    check("a -> 1\n a/1/b -> 2\n a/1/b/2/c -> 3\n b/2/c/3/d -> 4\n e -> 5", "a/1/b/2/c/3/d/4/e/5");
}

#[test]
fn what_was_said_elsewhere_is_taken_over() {
    check("a/1/b/2/c -> 3", "a/1/b/2/c/3");
    check("a -> 1\n a/1/b/2/c -> 3", "a/1/b/2/c/3");
}

#[test]
fn an_answer_the_client_polished_is_still_ours() {
    check("a -> 1\n a/one/b -> 2\n a/one/b/2/c -> 3", "a/1/b/2/c/3");
}

#[test]
fn ids_tell_retries_from_questions() {
    let mut notebook = Notebook::default();
    let ids = |question: &str, answer: &str| ClientIds {
        question: Some(question.into()),
        answer: Some(answer.into()),
        ..ClientIds::default()
    };
    let ask = |ids| asked(&["a".into()], ids);
    assert!(matches!(notebook.take(&ask(ids("q1", "m1")), "1"), Step::Append { .. }));
    assert!(matches!(notebook.take(&ask(ids("q1", "m1")), "-"), Step::Repeat(_)));
    assert!(matches!(notebook.take(&ask(ids("q1", "m2")), "1x"), Step::Revise(_)));
    assert!(matches!(notebook.take(&ask(ids("q2", "m3")), "2"), Step::Append { .. }));
    assert_eq!(notebook.visible(), ["a", "1x", "a", "2"]);
    let retry = Asked { marked_as_retry: true, ..ask(ClientIds::default()) };
    assert!(matches!(notebook.take(&retry, "-"), Step::Repeat(_)));
}

/// What a person does with a chat client that keeps the history.
#[derive(Debug, Clone)]
enum Deed {
    Ask(u8),
    Regenerate,
    Edit { back: usize, question: u8 },
    Truncate { keep: usize, question: u8 },
    Retry,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => any::<u8>().prop_map(Deed::Ask),
        2 => Just(Deed::Regenerate),
        2 => (0_usize..6, any::<u8>()).prop_map(|(back, question)| Deed::Edit { back, question }),
        1 => (1_usize..3, any::<u8>()).prop_map(|(keep, question)| Deed::Truncate { keep, question }),
        1 => Just(Deed::Retry),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever a client does, what is visible is what the client shows, and every answer is kept once.
    #[test]
    fn what_is_visible_is_what_the_client_shows(
        deeds in prop::collection::vec(deed(), 1..25),
        resends_history in any::<bool>(),
    ) {
        let mut notebook = Notebook::default();
        let mut shown: Vec<String> = Vec::new();
        let mut last: Option<Asked> = None;
        let mut truncated = false;
        for (n, deed) in deeds.iter().enumerate() {
            // Answers are told apart; questions may repeat, but an edit changes its question.
            let answer = format!("answer {n}");
            let key = || ClientIds { key: Some(format!("key {n}")), ..ClientIds::default() };
            let before = shown.clone();
            let request = match deed {
                Deed::Ask(question) => {
                    shown.push(format!("q{question}"));
                    asked(&shown, key())
                }
                Deed::Regenerate if shown.len() >= 2 => {
                    shown.pop();
                    asked(&shown, key())
                }
                Deed::Edit { back, question } if !truncated && shown.len() >= 2 => {
                    let at = shown.len() / 2 - 1;
                    shown.truncate((at - at.min(*back)) * 2);
                    shown.push(format!("q{question} edited {n}"));
                    asked(&shown, key())
                }
                Deed::Truncate { keep, question } if shown.len() > 2 * keep => {
                    truncated = true;
                    shown.push(format!("q{question} t{n}"));
                    asked(&shown[shown.len() - 1 - 2 * keep..], key())
                }
                Deed::Retry => match last.clone() {
                    Some(again) => {
                        prop_assert!(matches!(notebook.take(&again, "never said"), Step::Repeat(_)));
                        continue;
                    }
                    None => continue,
                },
                _ => continue,
            };
            // Only a client that always sends everything edits or repeats its first question without a history.
            if !resends_history && request.exchanges.is_empty() && !before.is_empty() {
                shown = before;
                continue;
            }
            let request = Asked { resends_history, ..request };
            notebook.take(&request, &answer);
            shown.push(answer);
            last = Some(request);
            prop_assert_eq!(notebook.visible(), shown.clone(), "after {:?}", deed);
        }
        let mut answers = notebook.all_answers();
        let count = answers.len();
        answers.sort();
        answers.dedup();
        prop_assert_eq!(answers.len(), count, "an answer is kept twice");
    }
}
