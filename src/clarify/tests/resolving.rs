//! What answers mean.

use super::super::{ChoiceOption, Clarification, resolve};
use jiff::Timestamp;

/// `question | label {attribute: value, …} | label …`
fn asked(text: &str) -> Clarification {
    let mut parts = text.split('|').map(str::trim);
    let question = parts.next().expect("a question");
    let option = |part: &str| {
        let (label, known) = part.split_once('{').unwrap_or((part, ""));
        let pairs = known.trim_end_matches('}').split(';').filter_map(|pair| pair.split_once(':'));
        let attributes = pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect();
        ChoiceOption { label: label.trim().to_owned(), attributes }
    };
    Clarification::new(question, parts.map(option).collect(), Timestamp::UNIX_EPOCH).expect("a choice")
}

/// Rows of `answer = places (by what)`, places from 1, `0` for none of them, `-` for no answer.
#[track_caller]
fn check(question: &str, rows: &str) {
    let clarification = asked(question);
    let mut wrong = Vec::new();
    for row in rows.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (answer, expected) = row.rsplit_once(" = ").expect("answer = what it means");
        let found = match resolve(&clarification, answer) {
            None => "-".to_owned(),
            Some(found) => {
                let places: Vec<String> = found.options.iter().map(|at| (at + 1).to_string()).collect();
                let places = if places.is_empty() { "0".to_owned() } else { places.join("+") };
                format!("{places} {}", found.by.as_str())
            }
        };
        if found != expected.trim() {
            wrong.push(format!("{answer:?} means {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{question}\n{}", wrong.join("\n"));
}

const MUGS: &str = "Which one would you like? | Blue mug (12 EUR) | Red mug (15 EUR) | Green glass (9 EUR)";

#[test]
fn by_place() {
    check(
        MUGS,
        "the second one = 2 ordinal
         second = 2 ordinal
         The second. = 2 ordinal
         I'll take the third one please = 3 ordinal
         the last one = 3 ordinal
         last = 3 ordinal
         the first option = 1 ordinal
         the 2nd = 2 ordinal
         second to last = 2 ordinal
         2 = 2 number
         #2 = 2 number
         (2) = 2 number
         2. = 2 number
         2) = 2 number
         2 please = 2 number
         number 3 = 3 number
         number three = 3 number
         No. 1 = 1 number
         option 2 please = 2 number
         option b = 2 number
         b = 2 number
         b) = 2 number
         B, please = 2 number
         option C = 3 number
         one = 1 number
         the first two = 1+2 ordinal
         the last two = 2+3 ordinal
         1 and 3 = 1+3 number
         1, 2 = 1+2 number
         the first and the third = 1+3 ordinal
         Can I have the second one? = 2 ordinal
         the second one? = 2 ordinal
         the second one, and what does it cost to ship? = 2 ordinal
         Option 2. How long does delivery take? = 2 number",
    );
}

#[test]
fn what_looks_like_a_place_and_is_none() {
    check(
        MUGS,
        "the fourth one = -
         7 = -
         option 9 = -
         z = -
         First, tell me about shipping = -
         the second world war = -
         When was the last time I was here? = -
         not the second one = -
         I want 2 of them and a plate = -
         the first time I ordered here was in May = -
         How many are there? = -
         is the second one better? = -
         0 = -",
    );
}

#[test]
fn by_name() {
    check(
        MUGS,
        "Blue mug (12 EUR) = 1 name
         blue mug = 1 name
         the blue one = 1 name
         Blue. = 1 name
         I'd like the blue one please = 1 name
         the red mug = 2 name
         glass = 3 name
         the green one = 3 name
         let's go with green = 3 name
         the 9 EUR one = 3 name
         the mug = -
         blue and red = 1+2 name
         the blue mug and the green glass = 1+3 name
         green, blue = 1+3 name
         blue or red = -
         the blue one? = 1 name
         the yellow one = -
         not the blue one = -
         anything but green = -
         is the blue one dishwasher safe? = -
         what about the blue one? = -
         my friend has a blue mug at home = -
         the sky is blue today = -
         blue mug, and when would it arrive? = -",
    );
    check(
        "Which plan? | Pro | Pro Max | Basic",
        "pro = 1 name
         pro max = 2 name
         max = 2 name
         the pro plan = 1 name
         basic plan please = 3 name",
    );
    check(
        "Which Anna do you mean? | Anna de Vries | Anna Jansen | Anna Bakker",
        "Jansen = 2 name
         de Vries = 1 name
         Anna = -
         the baker = 3 close match
         the butcher = -
         Anna Bakker = 3 name
         Anna Jansen, the one from work = 2 name",
    );
}

#[test]
fn by_nearly_the_name() {
    check(
        "Which city do you mean? | Amsterdam | Rotterdam | Utrecht",
        "amsterdm = 1 close match
         Amstredam = 1 close match
         rotterdamm = 2 close match
         utrech = 3 close match
         I mean Utrehct = 3 close match
         dam = -
         Antwerp = -
         terdam = -",
    );
    check(
        "Welke wil je? | Cappuccino | Crème brûlée | Espresso",
        "capuccino = 1 close match
         cappucino graag = 1 close match
         creme brulee = 2 name
         expresso = 3 close match
         thee = -",
    );
}

#[test]
fn a_number_that_is_a_name_too() {
    check(
        "How much memory? | 2 GB | 4 GB | 8 GB",
        "4 = 2 name\n8 = 3 name\n2 = -\n#2 = 2 number\nthe second = 2 ordinal",
    );
    check("Which iPhone? | iPhone 12 | iPhone 13", "13 = 2 name\nthe 12 = 1 name\n1 = 1 number");
    check("Which size? | 2 | 1", "2 = 1 name\n1 = 2 name\nthe first = 1 ordinal");
    check("A or B? | b | a", "a = 2 name\nb = 1 name\noption a = 1 number");
}

#[test]
fn by_attribute() {
    check(
        "Which mug? | Mug A {color: blue; material: ceramic} | Mug B {color: red; material: steel} | Mug C {color: red; material: ceramic}",
        "the blue one = 1 attribute
         blue = 1 attribute
         steel = 2 attribute
         the steel one please = 2 attribute
         the red ceramic one = 3 attribute
         red = -
         ceramic = -
         the ceramic red mug = 3 attribute
         wood = -
         Mug B = 2 name
         the blue mug = 1 attribute",
    );
    check(
        "Which room? | Garden room {details: two beds, sea view} | Attic {details: one bed, city view}",
        "the one with the sea view = 1 attribute
         city view = 2 attribute
         sea = 1 attribute
         view = -",
    );
}

#[test]
fn by_comparison() {
    check(
        "Which one? | Blue mug (12 EUR) | Red mug (15 EUR)",
        "the cheaper one = 1 comparison
         cheaper = 1 comparison
         the cheapest = 1 comparison
         the more expensive one = 2 comparison
         the expensive one = 2 comparison
         the most expensive = 2 comparison
         the cheaper mug = 1 comparison
         the bigger one = -
         is the cheaper one any good? = -
         not the cheapest = -",
    );
    check(MUGS, "the cheapest = 3 comparison\nmost expensive please = 2 comparison\nthe cheaper one = -");
    check(
        "Which bottle? | Small bottle {volume: 500 ml; price: €3.50} | Family bottle {volume: 1.5 l; price: €3,25} | Keg {volume: 5 litre; price: 20 EUR}",
        "the biggest = 3 comparison
         the smallest one = 1 comparison
         the largest bottle = 3 comparison
         the cheapest one = 2 comparison
         the bigger one = -",
    );
    check(
        "Which train? | the 9:15 train | the 11:30 train",
        "the earlier one = 1 comparison\nthe later train = 2 comparison\nthe earliest = 1 comparison",
    );
    check(
        "Which laptop? | Nova (2021), 1.4 kg | Terra (2024), 1.1 kg",
        "the newer one = 2 comparison\nthe lightest = 2 comparison\nthe older one = 1 comparison\nthe heavier one = 1 comparison",
    );
    check(
        "Which size? | Small | Medium | Large",
        "the biggest = 3 comparison\nthe smallest = 1 comparison\nmedium = 2 name\nM = -",
    );
    check("Which? | Tent (200 EUR) | Bike (200 EUR)", "the cheaper one = -\nthe cheapest = -");
    check("Which? | Tent (200 EUR) | Bike ($150)", "the cheapest = -");
    check("Which? | Tent (200 EUR) | Bike", "the cheapest = -");
}

#[test]
fn all_of_them_or_none() {
    check(
        "Tea or coffee? | tea | coffee",
        "both = 1+2 all
         Both please! = 1+2 all
         both of them = 1+2 all
         all = 1+2 all
         neither = 0 neither
         Neither of them. = 0 neither
         none = 0 neither
         no thanks = 0 neither
         no = 0 neither
         all three = -
         tea and coffee = 1+2 name
         tea = 1 name
         neither do I = -
         no idea = -
         all day = -",
    );
    check(
        MUGS,
        "all = 1+2+3 all\nall of them = 1+2+3 all\nall three please = 1+2+3 all\nboth = -\nnone of them = 0 neither\nnone of the above = 0 neither\neverything = 1+2+3 all",
    );
}

#[test]
fn in_dutch() {
    check(
        "Welke wil je? | Blauwe mok (12 euro) | Rode mok (15 euro) | Groen glas (9 euro)",
        "de tweede = 2 ordinal
         doe maar de tweede = 2 ordinal
         de eerste graag = 1 ordinal
         de laatste = 3 ordinal
         de voorlaatste = 2 ordinal
         2 = 2 number
         nummer 2 = 2 number
         nummer twee = 2 number
         optie b = 2 number
         de 2e = 2 ordinal
         de eerste twee = 1+2 ordinal
         die blauwe = 1 name
         de blauwe graag = 1 name
         het glas = 3 name
         ik wil de rode = 2 name
         doe die rode maar = 2 name
         de rode mok en het glas = 2+3 name
         de goedkoopste = 3 comparison
         de duurste = 2 comparison
         de goedkopere = -
         allemaal = 1+2+3 all
         alle drie = 1+2+3 all
         allebei = -
         geen van beide = 0 neither
         geen van deze = 0 neither
         nee bedankt = 0 neither
         mag ik de tweede? = 2 ordinal
         welke is het goedkoopst? = -
         hoe groot is de blauwe? = -
         niet de blauwe = -
         mijn moeder heeft een rode mok = -
         de tweede wereldoorlog = -
         wat kost verzending naar België? = -",
    );
    check(
        "Thee of koffie? | thee {prijs: €2} | koffie {prijs: €3}",
        "allebei = 1+2 all\nbeide graag = 1+2 all\ngeen van beide = 0 neither\nde goedkopere = 1 comparison\nde duurdere = 2 comparison\nkofie = 2 close match\ndoe maar thee = 1 name\nthee en koffie = 1+2 name",
    );
}

#[test]
fn in_german_french_and_spanish() {
    check(
        "Welche möchtest du? | Blaue Tasse (12 Euro) | Rote Tasse (15 Euro) | Grünes Glas (9 Euro)",
        "die zweite = 2 ordinal
         das dritte bitte = 3 ordinal
         die letzte = 3 ordinal
         die vorletzte = 2 ordinal
         ich nehme die erste = 1 ordinal
         die blaue = 1 name
         das Glas bitte = 3 name
         die günstigste = 3 comparison
         die teuerste = 2 comparison
         alle = 1+2+3 all
         keine von beiden = 0 neither
         nein danke = 0 neither
         Nummer zwei = 2 number
         der zweite Weltkrieg = -
         wie groß ist die blaue Tasse? = -",
    );
    check(
        "Laquelle préférez-vous ? | Tasse bleue (12 EUR) | Tasse rouge (15 EUR)",
        "la deuxième = 2 ordinal
         la première s'il vous plaît = 1 ordinal
         la dernière = 2 ordinal
         la bleue = 1 name
         je prends la rouge = 2 name
         la moins chère = 1 comparison
         la plus chère = 2 comparison
         les deux = 1+2 all
         aucune des deux = 0 neither
         ni l'une ni l'autre = 0 neither
         numéro 2 = 2 number
         quelle est la moins chère ? = -",
    );
    check(
        "¿Cuál prefieres? | Taza azul (12 EUR) | Taza roja (15 EUR)",
        "la segunda = 2 ordinal
         la primera por favor = 1 ordinal
         la última = 2 ordinal
         la azul = 1 name
         quiero la roja = 2 name
         la más barata = 1 comparison
         la más cara = 2 comparison
         las dos = 1+2 all
         ambas = 1+2 all
         ninguna de las dos = 0 neither
         opción 2 = 2 number
         ¿cuánto cuesta la azul? = -",
    );
}

#[test]
fn in_another_language_than_the_question() {
    check(
        MUGS,
        "de tweede = 2 ordinal\ndie zweite = 2 ordinal\nla troisième = 3 ordinal\nel último = 3 ordinal\ndoe maar de laatste = 3 ordinal",
    );
}

#[test]
fn what_is_new_is_a_question_like_any_other() {
    check(
        MUGS,
        "What is the weather in Berlin? = -
         Tell me a joke = -
         How much does shipping cost? = -
         I live in Lisbon. = -
         thanks = -
         hello = -
         ??? = -
         . = -
         I don't know = -
         which one do you recommend? = -
         the one my sister bought last year = -
         something else = -
         surprise me = -",
    );
}
