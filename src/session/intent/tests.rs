//! What kinds of things people say.

use super::*;
use proptest::prelude::*;

/// Rows of `text = intent`; `history` says whether something was said before.
#[track_caller]
fn check(code: &str, history: bool, rows: &str) {
    let tongue = Tongue::from_code(code).expect("one of the five");
    let mut wrong = Vec::new();
    for row in rows.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (text, expected) = row.rsplit_once(" = ").expect("text = intent");
        let found = read_intent(&Saying { text, tongue, has_history: history, answers: None });
        if found.name != expected.trim() {
            wrong.push(format!("{text:?} is a {} ({}), not a {expected}", found.name, found.decided_by));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn in_english() {
    check(
        "en",
        true,
        "Where do I live? = question
         What is the capital of France? = question
         how do I reset it = follow_up
         how do I reset my router = question
         when did Ann move to Porto = question
         Which products do you have for that? = follow_up
         and in winter? = follow_up
         and in winter = follow_up
         what about her brother? = follow_up
         Why? = follow_up
         And Lisbon? = follow_up
         How much does it cost? = follow_up
         Does it work with my printer? = follow_up
         My name is Ann. = statement
         I live in Lisbon = statement
         I work as a car salesman. = statement
         The train was late. = statement
         It works now. = statement
         Thanks! = statement
         ok = statement
         Write a poem about the sea = instruction
         write me a poem = instruction
         Please translate this into Dutch = instruction
         Remember that I am allergic to nuts. = instruction
         Remind me to call Ann = instruction
         Always answer in French. = instruction
         Don't use emojis = instruction
         Do not use emojis = instruction
         Never mention my ex = instruction
         Tell me a joke = instruction
         Explain quantum physics like I'm five = instruction
         From now on, be brief. = instruction
         Can you write me a poem? = instruction
         Could you please summarise this? = instruction
         Would you mind repeating that? = instruction
         Okay, now list them by price = instruction
         Can you swim? = question
         No, I meant the blue one = correction
         I meant Porto, not Lisbon = correction
         Actually, it's on Friday = correction
         Actually my name is Anna with an h = correction
         That's wrong. = correction
         That is not what I asked = correction
         No, that's not right = correction
         You're wrong about that = correction
         Not Lisbon but Porto = correction
         Correction: it is 42 = correction
         No, my sister lives there = correction
         I no longer work there = correction
         Sorry, I meant Tuesday = correction
         scratch that = correction",
    );
    check(
        "en",
        false,
        "Which products do you have for that? = question
         and in winter? = question
         No, my sister lives there = statement
         … = statement
         ?!? = question",
    );
}

#[test]
fn in_dutch() {
    check(
        "nl",
        true,
        "Waar woon ik? = question
         Welke producten heb je daarvoor? = follow_up
         hoe reset ik mijn router = question
         En in de winter? = follow_up
         en in de winter = statement
         En hoe duur is dat? = follow_up
         Waarom? = follow_up
         Mijn naam is Anna. = statement
         Ik woon in Utrecht = statement
         De trein was te laat. = statement
         Bedankt! = statement
         Schrijf een gedicht over de zee = instruction
         Geef me een lijst = instruction
         Vertel een grap = instruction
         Onthoud dat ik allergisch ben voor noten = instruction
         Antwoord altijd in het Nederlands = instruction
         Gebruik geen emojis = instruction
         Kun je een gedicht schrijven? = instruction
         Kun je dit voor me samenvatten? = instruction
         Kun je zwemmen? = question
         Nee, ik bedoel de blauwe = correction
         Ik bedoelde Utrecht = correction
         Dat klopt niet = correction
         Dat is fout = correction
         Eigenlijk is het vrijdag = correction
         Niet Utrecht maar Zeist = correction
         Nee, mijn zus woont daar = correction
         Correctie: het is 42 = correction",
    );
}

#[test]
fn in_german() {
    check(
        "de",
        true,
        "Wo wohne ich? = question
         Welche Produkte hast du dafür? = follow_up
         Und im Winter? = follow_up
         wie heißt mein Hund = question
         Ich heiße Anna. = statement
         Der Zug war zu spät. = statement
         Schreib ein Gedicht über das Meer = instruction
         Bitte übersetze das = instruction
         Erkläre mir die Relativitätstheorie = instruction
         Kannst du mir ein Gedicht schreiben? = instruction
         Nein, ich meinte die blaue = correction
         Das stimmt nicht = correction
         Das ist falsch = correction
         Nicht Berlin, sondern Bonn = correction",
    );
}

#[test]
fn in_french() {
    check(
        "fr",
        true,
        "Où est-ce que j'habite ? = question
         Et en hiver ? = follow_up
         Combien coûte cela ? = follow_up
         Je m'appelle Anne. = statement
         Le train était en retard. = statement
         Écris un poème sur la mer = instruction
         Explique-moi la relativité = instruction
         Peux-tu m'écrire un poème ? = instruction
         Non, je voulais dire la bleue = correction
         C'est faux = correction
         Ce n'est pas ça = correction
         Pas Paris mais Lyon = correction",
    );
}

#[test]
fn in_spanish() {
    check(
        "es",
        true,
        "¿Dónde vivo? = question
         ¿Y en invierno? = follow_up
         ¿Cuánto cuesta eso? = follow_up
         Me llamo Ana. = statement
         El tren llegó tarde. = statement
         Escribe un poema sobre el mar = instruction
         Explícame la relatividad = instruction
         ¿Puedes escribirme un poema? = instruction
         No, quise decir la azul = correction
         Eso no es correcto = correction
         No Madrid sino Toledo = correction
         Me equivoqué = correction",
    );
}

#[test]
fn an_answer_to_a_clarification_is_one_whatever_its_form() {
    for text in ["the second one", "the blue one?", "2"] {
        let found = read_intent(&Saying { text, answers: Some(0.95), ..Saying::default() });
        assert_eq!((found.name, found.confidence), ("clarification", 0.95), "{text}");
    }
}

proptest! {
    #[test]
    fn anything_is_read_as_something(text in "(\\PC|[\n\t?.,]){0,60}", has_history: bool) {
        for tongue in Tongue::ALL {
            let found = read_intent(&Saying { text: &text, tongue, has_history, answers: None });
            prop_assert!((0.5..=1.0).contains(&found.confidence) && !found.decided_by.is_empty());
        }
    }
}
