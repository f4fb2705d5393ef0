//! What replies end in.

use super::super::{Heard, hear};

/// A reply and what it ends in: `question | option | option {details}`, `again`, `else` or `nothing`.
#[track_caller]
fn check(reply: &str, expected: &str) {
    let found = match hear(reply) {
        Heard::Choice { question, options } => {
            let option = |option: &super::super::ChoiceOption| match option.attributes.get("details") {
                Some(details) => format!("{} {{{details}}}", option.label),
                None => option.label.clone(),
            };
            format!("{question} | {}", options.iter().map(option).collect::<Vec<_>>().join(" | "))
        }
        Heard::Again => "again".into(),
        Heard::Else => "else".into(),
        Heard::Nothing => "nothing".into(),
    };
    assert_eq!(found, expected, "{reply}");
}

/// Only whether there is a choice, and how many options it has.
#[track_caller]
fn count(expected: usize, replies: &[&str]) {
    for reply in replies {
        let found = match hear(reply) {
            Heard::Choice { options, .. } => options.len(),
            _ => 0,
        };
        assert_eq!(found, expected, "{reply}\n{:?}", hear(reply));
    }
}

#[test]
fn options_within_the_question() {
    check("Which one: A, B or C?", "Which one: A, B or C? | A | B | C");
    check("I can do that. Which one: tea, coffee or water?", "Which one: tea, coffee or water? | tea | coffee | water");
    check(
        "Do you mean Anna Jansen or Anna de Vries?",
        "Do you mean Anna Jansen or Anna de Vries? | Anna Jansen | Anna de Vries",
    );
    check(
        "Would you like the blue mug or the red mug? 😊",
        "Would you like the blue mug or the red mug? | blue mug | red mug",
    );
    check(
        "Which size would you like, small, medium or large?",
        "Which size would you like, small, medium or large? | small | medium | large",
    );
    check("Tea or coffee – which do you prefer?", "Tea or coffee – which do you prefer? | Tea | coffee");
    check("Do you mean Dr. Smith or Dr. Jones?", "Do you mean Dr. Smith or Dr. Jones? | Dr. Smith | Dr. Jones");
    check(
        "Should I book the 9:00, the 11:30 or the 1,000 euro one?",
        "Should I book the 9:00, the 11:30 or the 1,000 euro one? | 9:00 | 11:30 | 1,000 euro one",
    );
    check(
        "Sure! Would you like me to book a table or order in?",
        "Would you like me to book a table or order in? | book a table | order in",
    );
    check(
        "Which one: 1) Tea, 2) Coffee or 3) Water?",
        "Which one: 1) Tea, 2) Coffee or 3) Water? | Tea | Coffee | Water",
    );
    check(
        "Which one do you mean: \"Dune\" (1984) or \"Dune\" (2021)?",
        "Which one do you mean: \"Dune\" (1984) or \"Dune\" (2021)? | Dune (1984) | Dune (2021)",
    );
    check(
        "Okay, do you want the window seat, the aisle seat or something else?",
        "Okay, do you want the window seat, the aisle seat or something else? | window seat | aisle seat",
    );
    check(
        "Which colour do you prefer: red / green / blue?",
        "Which colour do you prefer: red / green / blue? | red | green | blue",
    );
    check("Is it for work or for home?", "Is it for work or for home? | work | for home");
    check(
        "**Would you prefer** the *garden room* or the *attic*?",
        "Would you prefer the garden room or the attic? | garden room | attic",
    );
    count(
        2,
        &[
            "Are you looking for the Python library or the snake?",
            "Do you want it hot or cold?",
            "Which do you prefer, mornings or evenings?",
            "Would you like to pay by card or in cash? Just let me know!",
        ],
    );
    count(
        3,
        &[
            "Do you need the small, medium or large version?",
            "Shall I use Postgres, MySQL, or SQLite?",
            "What would you like to drink: tea, coffee, or juice?",
        ],
    );
}

#[test]
fn options_in_the_sentence_before() {
    check(
        "We have a blue mug, a red mug and a green glass. Which one would you like?",
        "Which one would you like? | blue mug | red mug | green glass",
    );
    check(
        "I found three: Anna Jansen, Anna Bakker and Anna de Vries. Which one do you mean?",
        "Which one do you mean? | Anna Jansen | Anna Bakker | Anna de Vries",
    );
    check(
        "It comes in red, green and blue. Which colour would you like?",
        "Which colour would you like? | red | green | blue",
    );
    count(2, &["There are two routes: over the hill or along the river. Which one do you prefer?"]);
}

#[test]
fn options_in_a_list() {
    check(
        "Which one do you mean?\n1. Blue mug\n2. Red mug\n3. Green glass",
        "Which one do you mean? | Blue mug | Red mug | Green glass",
    );
    check(
        "I found these:\n\n1. Blue mug (12 EUR)\n2. Red mug (15 EUR)\n\nWhich one would you like?",
        "Which one would you like? | Blue mug (12 EUR) | Red mug (15 EUR)",
    );
    check(
        "Here are two:\n- **Blue mug**: ceramic, 12 EUR\n- **Red mug**: steel, 15 EUR\n\nWhich do you prefer?",
        "Which do you prefer? | Blue mug {ceramic, 12 EUR} | Red mug {steel, 15 EUR}",
    );
    check(
        "Which room?\n\na) Garden room - sea view\nb) Attic - city view\n\nWhich one shall I book?",
        "Which one shall I book? | Garden room {sea view} | Attic {city view}",
    );
    check("Please choose one:\nA. Standard\nB. Express", "Please choose one: | Standard | Express");
    check(
        "Which version do you have?\n1) 2.0\n2) 3.1\n\nJust reply with the number.",
        "Which version do you have? | 2.0 | 3.1",
    );
    check("**1. Tea**\n**2. Coffee**\n\nWhich one would you like?", "Which one would you like? | Tea | Coffee");
    check(
        "Options:\n\n1. Basic plan\n   - 1 user\n   - 5 GB\n2. Team plan\n   - 10 users\n\nWhich plan would you like?",
        "Which plan would you like? | Basic plan | Team plan",
    );
    check(
        "<think>Which one? A or B?</think>Which one do you mean?\n• Paris, France\n• Paris, Texas",
        "Which one do you mean? | Paris, France | Paris, Texas",
    );
    count(
        2,
        &[
            "Which of these do you want?\n* Tea\n* Coffee\n",
            "1. Tea\n\n2. Coffee\n\nLet me know which one you'd like!\n\nWhich one will it be?",
        ],
    );
}

#[test]
fn in_dutch() {
    check("Welke bedoel je: A, B of C?", "Welke bedoel je: A, B of C? | A | B | C");
    check(
        "Bedoel je Anna Jansen of Anna de Vries?",
        "Bedoel je Anna Jansen of Anna de Vries? | Anna Jansen | Anna de Vries",
    );
    check("Wil je thee of koffie?", "Wil je thee of koffie? | thee | koffie");
    check(
        "Ik heb deze gevonden:\n1. Blauwe mok (12 euro)\n2. Rode mok (15 euro)\n\nWelke wil je hebben?",
        "Welke wil je hebben? | Blauwe mok (12 euro) | Rode mok (15 euro)",
    );
    check(
        "We hebben een blauwe mok, een rode mok en een groen glas. Welke wilt u?",
        "Welke wilt u? | blauwe mok | rode mok | groen glas",
    );
    check(
        "Welke kleur wil je, rood, groen of blauw?",
        "Welke kleur wil je, rood, groen of blauw? | rood | groen | blauw",
    );
    check(
        "Heb je liever het raam of het gangpad? Laat het me weten!",
        "Heb je liever het raam of het gangpad? | raam | gangpad",
    );
    count(
        0,
        &[
            "Wil je het of niet?",
            "Kan ik verder nog iets voor je doen?",
            "1. Open de instellingen.\n2. Klik op Opslaan.\n\nLukt het zo?",
            "Dat is min of meer hetzelfde, toch?",
            "Wil je nog meer weten of heb je genoeg?",
        ],
    );
}

#[test]
fn in_german_french_and_spanish() {
    check(
        "Meinst du Anna Schmidt oder Anna Weber?",
        "Meinst du Anna Schmidt oder Anna Weber? | Anna Schmidt | Anna Weber",
    );
    check("Welche möchtest du?\n1. Blaue Tasse\n2. Rote Tasse", "Welche möchtest du? | Blaue Tasse | Rote Tasse");
    check("Möchten Sie Tee oder Kaffee?", "Möchten Sie Tee oder Kaffee? | Tee | Kaffee");
    check("Préférez-vous le thé ou le café ?", "Préférez-vous le thé ou le café ? | thé | café");
    check(
        "Laquelle préférez-vous ?\n- Tasse bleue\n- Tasse rouge",
        "Laquelle préférez-vous ? | Tasse bleue | Tasse rouge",
    );
    check("¿Prefieres té o café?", "¿Prefieres té o café? | té | café");
    check("¿Cuál prefieres?\n1. Taza azul\n2. Taza roja", "¿Cuál prefieres? | Taza azul | Taza roja");
    count(
        0,
        &[
            "Kann ich sonst noch etwas für dich tun?",
            "Willst du das oder nicht?",
            "Puis-je vous aider avec autre chose ?",
            "¿Puedo ayudarte con algo más?",
            "Est-ce que cela vous aide ?",
        ],
    );
}

#[test]
fn a_list_without_a_question_is_no_choice() {
    count(
        0,
        &[
            "1. Open the settings.\n2. Click Save.\n3. Restart.",
            "Here is what you need:\n- a helmet\n- a rope\n- gloves",
            "I recommend:\n1. Rust\n2. Go\nBoth are fine.",
            "The steps are:\n1. Mix\n2. Bake\n\nEnjoy your cake!",
            "My favourites are tea, coffee and water.",
            "You can choose tea or coffee.",
        ],
    );
}

#[test]
fn another_question_behind_a_list_is_no_choice() {
    count(
        0,
        &[
            "1. Open the settings.\n2. Click Save.\n\nDoes that help?",
            "1. Open the settings.\n2. Click Save.\n\nAnything else?",
            "Try this:\n- restart\n- update\n\nWould you like more details?",
            "- restart\n- update\n\nWhich version do you have?",
            "1. Mix\n2. Bake\n\nDo you want the recipe for the frosting?",
            "1. Mix\n2. Bake\n\nHow many guests do you expect?",
            "Your facts:\n- You live in Lisbon\n- You have a dog\n\nIs that right?",
            "Please answer:\n1. What is your name?\n2. Where do you live?\n\nWhich one do you want to start with?",
        ],
    );
}

#[test]
fn a_question_that_the_reply_answers_itself_is_no_choice() {
    count(
        0,
        &[
            "Tea or coffee? Coffee, of course.",
            "# Which fruits are healthy?\n1. Apples\n2. Pears",
            "Which languages are popular?\n1. Python\n2. Rust",
            "Why is Rust fast?\n- no garbage collector\n- LLVM",
            "What did we learn today?\n1. Borrowing\n2. Lifetimes",
            "Which plan fits you?\n1. Basic\n2. Pro\n\nI recommend Pro, because you have a team.",
            "Do you prefer tea or coffee? I do not drink either, being a program.",
            "How do you choose a mug?\n1. Look at the size\n2. Look at the price",
        ],
    );
}

#[test]
fn a_question_that_only_has_an_or_in_it_is_no_choice() {
    count(
        0,
        &[
            "Are you coming or not?",
            "Do you want it or not?",
            "Would you like to know more?",
            "Would you like me to explain more, or are you all set?",
            "Is it more or less the same?",
            "Should I go ahead, yes or no?",
            "Is there anything else I can help you with, or is that all?",
            "Do you want this or that?",
            "Sooner or later everybody asks: why?",
            "Can you tell me more about the error or the logs, so that I can see what your machine was doing at the time it happened?",
            "Would you like tea or something else?",
            "Who or what is that?",
            "What is the capital of France?",
            "How are you?",
        ],
    );
}

#[test]
fn asking_again_is_told_from_asking_something_else() {
    check("The blue one is ceramic, the red one is steel.\nWhich one would you like?", "again");
    check("Noted. Which one do you mean?", "again");
    check("Welke wil je?", "again");
    check("Noted. How many people will come?", "else");
    check("Anything else?", "else");
    check("Wilt u daar een strik om?", "else");
    check("It is sunny.", "nothing");
    check("", "nothing");
    check("```\nWhich one: a or b?\n```", "nothing");
}
