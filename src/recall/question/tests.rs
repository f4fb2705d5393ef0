//! What is read from questions.

use proptest::prelude::*;

use super::*;

fn read_as(text: &str, participants: &[String], otherwise: Tongue) -> Question {
    let now = "2024-05-15T14:30:00Z".parse().expect("a time");
    let zone = TimeZone::UTC;
    read(text, &Reading { participants, now, zone, tongue_otherwise: otherwise, from: None, to: None })
}

/// Rows of `question = what is seen in it`.
#[track_caller]
fn check(code: &str, rows: &str, seen: fn(&Question) -> String) {
    let expected_tongue = Tongue::from_code(code).expect("one of the five");
    let mut wrong = Vec::new();
    for row in rows.lines() {
        let (text, expected) = row.trim().rsplit_once(" = ").expect("question = what is seen");
        let question = read_as(text, &[], expected_tongue);
        let found = seen(&question);
        if question.tongue != expected_tongue {
            wrong.push(format!("{text} is taken for {:?}", question.tongue));
        }
        if found != expected {
            wrong.push(format!("{text} = {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn flags(marks: &[(bool, &str)]) -> String {
    let set: Vec<&str> = marks.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if set.is_empty() { "-".to_owned() } else { set.join(" ") }
}

fn asked_for(question: &Question) -> String {
    let Question { when, many, place, title, .. } = *question;
    flags(&[(when, "when"), (many, "many"), (place, "place"), (title, "title")])
}

fn about(question: &Question) -> String {
    flags(&[(question.about_user, "user"), (question.about_assistant, "assistant")])
}

fn kind(question: &Question) -> String {
    let Kinds { sum, ord, you, past, req, .. } = question.kind;
    flags(&[(sum, "sum"), (ord, "ord"), (you, "you"), (past, "past"), (req, "req")])
}

fn cleaned(question: &Question) -> String {
    question.cleaned.clone()
}

#[test]
fn what_is_asked_for() {
    check(
        "en",
        "When did I move? = when
         How long have I lived here? = when many
         What day is the party? = when
         Which year did we meet? = when
         And when was that? = when
         What was the time when I left? = -
         How many dogs do I have? = many
         How old is my sister? = many
         Where do I live? = place
         Which city did I visit? = place
         Which countries have I seen? = place
         What is my dog called? = title
         What books did I read? = title
         Who is my boss? = -",
        asked_for,
    );
    check(
        "nl",
        "Wanneer ben ik verhuisd? = when
         Hoe lang woon ik hier? = when many
         In welk jaar hebben we elkaar ontmoet? = when
         Hoeveel honden heb ik? = many
         Waar woon ik? = place
         Welke stad heb ik bezocht? = place
         Hoe heet mijn hond? = title
         Welke boeken heb ik gelezen? = title
         Wie is mijn baas? = -",
        asked_for,
    );
    check(
        "de",
        "Wann bin ich umgezogen? = when\nWie viele Hunde habe ich? = many\nWo wohne ich? = place\nWie heißt mein Hund? = title",
        asked_for,
    );
    check(
        "fr",
        "Quand ai-je déménagé ? = when\nCombien de chiens ai-je ? = many\nOù est-ce que j'habite ? = place\nComment s'appelle mon chien ? = title",
        asked_for,
    );
    check(
        "es",
        "¿Cuándo me mudé? = when\n¿Cuántos perros tengo? = many\n¿Dónde vivo? = place\n¿Cómo se llama mi perro? = title",
        asked_for,
    );
}

#[test]
fn whom_it_is_about() {
    check(
        "en",
        "Where do I live? = user
         What is our plan? = user
         What did you recommend for my garden? = assistant
         What did I say when you suggested tea? = user
         Did I like what you said? = user
         Is this one mine? = user
         What is the capital of France? = -",
        about,
    );
    check(
        "nl",
        "Waar woon ik? = user
         Wat raadde je me aan? = assistant
         Welk boek heb je mij toen aangeraden? = assistant
         Wat was je advies? = assistant
         Welke producten heb je daarvoor? = -
         Wat zei ik over jouw advies? = user",
        about,
    );
    check("de", "Wo wohne ich? = user\nWas hast du mir empfohlen? = assistant", about);
    check("fr", "Où est-ce que j'habite ? = user\nQu'est-ce que tu m'as conseillé ? = assistant", about);
    check("es", "¿Cómo se llama mi perro? = user\n¿Qué me recomendaste? = assistant", about);
}

#[test]
fn what_kind_of_answer_is_wanted() {
    check(
        "en",
        "Can you summarize what we said about the garden? = sum
         How has my running progressed over the year? = sum
         Give me an overview of the project = sum
         In which order did I visit the cities? = ord
         List the timeline of the move = ord
         What did you recommend? = you past
         I like tea. What did you say about it? = you past
         What did I say about tea? = past
         How often do I swim? = past
         Am I allergic to nuts? = past
         What is my current address? = past
         What did I buy? Write a poem about it. = past
         Write a poem about the sea = req
         Which tea should I drink? = req",
        kind,
    );
    check(
        "nl",
        "Kun je samenvatten wat we bespraken? = sum
         In welke volgorde bezocht ik de steden? = ord
         Welk boek heb je aangeraden? = you past
         Wat heb ik over thee gezegd? = past
         Hoe vaak zwem ik? = past
         Schrijf een gedicht over de zee = req
         Welke producten heb je daarvoor? = req",
        kind,
    );
    check(
        "de",
        "Fass bitte alles zusammen, was wir besprochen haben = sum\nWas habe ich gesagt? = past\nSchreib ein Gedicht über das Meer = req",
        kind,
    );
    check(
        "fr",
        "Fais un résumé de nos discussions = sum\nQu'est-ce que j'ai dit ? = past\nÉcris un poème sur la mer = req",
        kind,
    );
    check("es", "Haz un resumen de la charla = sum\n¿Qué dije ayer? = past\nEscribe un poema sobre el mar = req", kind);
}

#[test]
fn cleaning() {
    check(
        "en",
        "Can you tell me about my dog? = my dog?
         Could you please remind me what I said about the garden? = what about the garden?
         What did you recommend for my back? = What for my back?
         Throughout our many conversations, in which order did I bring up the cities? = did I the cities?
         Did I ever mention tea? = tea?
         What have we've discussed about boats = What have about boats
         How many plants do I have in total? = plants do I have?
         What did I say? = What did I say?
         Where do I live? = Where do I live?
         Mention only and only three items about tea = about tea",
        cleaned,
    );
    check(
        "nl",
        "Kun je me vertellen hoe mijn hond heet? = hoe mijn hond heet?
         Wat heb ik gezegd over de tuin? = Wat over de tuin?
         Hoeveel planten heb ik in totaal? = planten heb ik?
         Wat zei ik? = Wat zei ik?
         Waar woon ik? = Waar woon ik?",
        cleaned,
    );
    check(
        "de",
        "Kannst du mir sagen, wie mein Hund heißt? = wie mein Hund heißt?\nWo wohne ich? = Wo wohne ich?",
        cleaned,
    );
    check("fr", "Peux-tu me dire comment s'appelle mon chien ? = comment s'appelle mon chien?", cleaned);
    check("es", "¿Puedes decirme cómo se llama mi perro? = cómo se llama mi perro?", cleaned);
}

#[test]
fn participants() {
    #[track_caller]
    fn check(participants: &str, text: &str, named: &[usize], without: &str) {
        let participants: Vec<String> = participants.split(", ").map(str::to_owned).collect();
        let question = read_as(text, &participants, Tongue::English);
        assert_eq!((question.named.as_slice(), question.without_names.as_str()), (named, without), "{text}");
    }
    check("Ann, Melanie", "Where did Ann go?", &[0], "Where did go?");
    check("Ann, Melanie", "What is melanie's dog called?", &[1], "What is dog called?");
    check("Ann, Melanie", "Did Mela’s brother call?", &[1], "Did brother call?");
    check("Ann, Melanie", "Did Mel call?", &[], "Did Mel call?");
    check("Ann, Melanie", "Did Anna call?", &[], "Did Anna call?");
    check("Ann, Melanie", "Did Ann and Melanie meet?", &[0, 1], "Did and meet?");
    check("Stephen", "Which steps did I take?", &[], "Which steps did I take?");
    check("Carol, Caroline", "Where is Carol?", &[0], "Where is?");
    check("Ann Lee, Ann Roy", "Where is Ann Lee now?", &[0], "Where is now?");
    check("Ann Lee, Ann Roy", "Where is Ann now?", &[0, 1], "Where is now?");
    check("Ann", "Ann?", &[0], "Ann?");
    check("", "Ann?", &[], "Ann?");
}

#[test]
fn a_range_that_is_given_wins_over_one_that_is_said() {
    let question = read_as("What did I do yesterday?", &[], Tongue::English);
    let said = question.range.expect("yesterday");
    assert_eq!(said.from.to_string(), "2024-05-14T00:00:00Z");
    let from: Timestamp = "2020-01-01T00:00:00Z".parse().expect("a time");
    let now = "2024-05-15T14:30:00Z".parse().expect("a time");
    let reading = Reading {
        participants: &[],
        now,
        zone: TimeZone::UTC,
        tongue_otherwise: Tongue::English,
        from: Some(from),
        to: None,
    };
    assert_eq!(read("What did I do yesterday?", &reading).range, Some(TimeRange { from, to: Timestamp::MAX }));
}

proptest! {
    #[test]
    fn any_question_can_be_read(text in "\\PC{0,60}", name in "\\PC{0,8}") {
        for tongue in Tongue::ALL {
            let question = read_as(&text, &[name.clone(), "Melanie".to_owned()], tongue);
            prop_assert!(question.range.is_none_or(|range| range.from < range.to));
            prop_assert!(text.is_empty() || !question.cleaned.is_empty());
        }
    }

    #[test]
    fn names_and_phrases_in_any_order(parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..8)) {
        let text = parts.concat();
        let question = read_as(&text, &["Melanie".to_owned(), "Ann Lee".to_owned()], Tongue::English);
        prop_assert!(question.named.len() <= 2);
    }
}

const PARTS: [&str; 12] = [
    "Melanie",
    "'s",
    "’s ",
    " ",
    "Ann",
    " Lee",
    "can you tell me",
    " we've discussed",
    "?",
    " how many",
    "in which order ",
    "é",
];
