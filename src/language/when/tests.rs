//! What is read as a date, and what is not.

use jiff::tz::{Offset, TimeZone};
use proptest::prelude::*;

use super::*;

/// A Wednesday, in the afternoon.
const NOW: &str = "2024-05-15T14:30:00Z";

/// Rows of `text = first day..last day`, or `text = -` where nothing is said about time; the end of a
/// range is the day it is over.
#[track_caller]
fn check(code: &str, rows: &str) {
    let tongue = Tongue::from_code(code).expect("one of the five");
    let mut wrong = Vec::new();
    for row in rows.lines() {
        let (text, expected) = row.trim().rsplit_once(" = ").expect("text = range");
        let found = range(text, tongue, NOW.parse().expect("a time"), &TimeZone::UTC);
        let found = found.map_or("-".to_owned(), |range| format!("{}..{}", short(range.from), short(range.to)));
        if found != expected {
            wrong.push(format!("{text} = {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A time as briefly as it can be told.
fn short(at: Timestamp) -> String {
    if at == Timestamp::MIN {
        return String::new();
    }
    let text = at.to_string();
    let text = text.trim_end_matches('Z');
    let text = text.strip_suffix(":00").unwrap_or(text);
    text.strip_suffix("T00:00").unwrap_or(text).to_owned()
}

#[test]
fn english_days() {
    check(
        "en",
        "what did I do yesterday? = 2024-05-14..2024-05-15
         what have I said today = 2024-05-15..2024-05-16
         what happened the day before yesterday = 2024-05-13..2024-05-14
         what did I eat last night? = 2024-05-14T18:00..2024-05-15T06:00
         who called this morning = 2024-05-15..2024-05-15T12:00
         the plan for tonight = 2024-05-15T18:00..2024-05-16T06:00
         what is planned for tomorrow = 2024-05-16..2024-05-17
         two days ago = 2024-05-13..2024-05-14
         10 days ago = 2024-05-05..2024-05-06
         whom did I meet last Monday? = 2024-05-13..2024-05-14
         whom did I meet last Wednesday? = 2024-05-08..2024-05-09
         on Wednesday = 2024-05-15..2024-05-16
         on Friday I said = 2024-05-10..2024-05-11
         next Friday = 2024-05-17..2024-05-18
         this Friday = 2024-05-17..2024-05-18",
    );
}

#[test]
fn english_weeks_months_years() {
    check(
        "en",
        "last week = 2024-05-06..2024-05-13
         this week = 2024-05-13..2024-05-20
         next week = 2024-05-20..2024-05-27
         last weekend = 2024-05-11..2024-05-13
         last month's invoice = 2024-04-01..2024-05-01
         this month = 2024-05-01..2024-06-01
         last year = 2023-01-01..2024-01-01
         two weeks ago = 2024-04-29..2024-05-06
         a couple of weeks ago = 2024-04-29..2024-05-06
         three months ago = 2024-02-01..2024-03-01
         a year ago = 2023-01-01..2024-01-01
         in the past week = 2024-05-06..2024-05-16
         in the last two weeks = 2024-05-01..2024-05-16
         over the past 3 months = 2024-02-15..2024-05-16
         the past few days = 2024-05-10..2024-05-16
         in March = 2024-03-01..2024-04-01
         in May = 2024-05-01..2024-06-01
         in September = 2023-09-01..2023-10-01
         last May = 2023-05-01..2023-06-01
         last March = 2024-03-01..2024-04-01
         next March = 2025-03-01..2025-04-01
         in March 2023 = 2023-03-01..2023-04-01
         the March 2023 trip = 2023-03-01..2023-04-01
         in early March = 2024-03-01..2024-03-11
         late February = 2024-02-21..2024-03-01
         the last week of March = 2024-03-01..2024-04-01
         in 2022 = 2022-01-01..2023-01-01
         the summer of 2022 = 2022-01-01..2023-01-01",
    );
}

#[test]
fn english_dates() {
    check(
        "en",
        "on 7 May 2023 = 2023-05-07..2023-05-08
         on May 7th = 2024-05-07..2024-05-08
         May 7, 2023 = 2023-05-07..2023-05-08
         on the 20th of May = 2023-05-20..2023-05-21
         on 7 may = 2024-05-07..2024-05-08
         Dec 24 = 2023-12-24..2023-12-25
         29 February = 2024-02-29..2024-03-01
         2023-05-07 = 2023-05-07..2023-05-08
         2023-05-07T10:00 = 2023-05-07..2023-05-08
         2023-05 = 2023-05-01..2023-06-01
         on 5/7 = 2024-05-07..2024-05-08
         on 5/7/2023 = 2023-05-07..2023-05-08
         on 25/12/2023 = 2023-12-25..2023-12-26
         7.5.2023 = 2023-05-07..2023-05-08",
    );
}

#[test]
fn english_stretches() {
    check(
        "en",
        "since March = 2024-03-01..2024-05-16
         since yesterday = 2024-05-14..2024-05-16
         since last Monday = 2024-05-13..2024-05-16
         since 2022 = 2022-01-01..2024-05-16
         since the beginning of March = 2024-03-01..2024-05-16
         until March 2023 = ..2023-04-01
         before 2022 = ..2022-01-01
         after May 7 = 2024-05-08..2024-05-16
         between March and April = 2024-03-01..2024-05-01
         between 3 and 7 May = 2024-05-03..2024-05-08
         between May 3 and 7 = 2024-05-03..2024-05-08
         between November and February = 2023-11-01..2024-03-01
         from March to June 2023 = 2023-03-01..2023-07-01
         between 2020 and 2022 = 2020-01-01..2023-01-01
         from May 3 to May 7 = 2024-05-03..2024-05-08
         between 2024-05-01 and yesterday = 2024-05-01..2024-05-15",
    );
}

#[test]
fn english_without_a_date() {
    check(
        "en",
        "what may I eat? = -
         7 may be enough = -
         may 7 people come? = -
         this may help = -
         did we march through town = -
         wait a second = -
         what is my last name? = -
         the last time we met = -
         the last day = -
         the next step = -
         what did April say? = -
         what is the name of April's dog = -
         is 24/7 support included = -
         add 1/2 cup = -
         version 1.2.3.4 = -
         2000 steps = -
         call 555-2023 = -
         before I go = -
         after dinner = -
         since I moved = -
         between you and me = -
         from me to you = -
         a few weeks ago = -
         a week = -
         on Mondays = -
         where do I live = -",
    );
}

#[test]
fn dutch() {
    check(
        "nl",
        "wat deed ik gisteren? = 2024-05-14..2024-05-15
         eergisteren = 2024-05-13..2024-05-14
         wat zei ik vandaag = 2024-05-15..2024-05-16
         gisteravond = 2024-05-14T18:00..2024-05-15T06:00
         vanochtend = 2024-05-15..2024-05-15T12:00
         wat doe ik morgen = 2024-05-16..2024-05-17
         vorige week = 2024-05-06..2024-05-13
         afgelopen week = 2024-05-06..2024-05-16
         afgelopen maandag = 2024-05-13..2024-05-14
         op vrijdag = 2024-05-10..2024-05-11
         vorig jaar = 2023-01-01..2024-01-01
         vorige maand = 2024-04-01..2024-05-01
         dit jaar = 2024-01-01..2025-01-01
         afgelopen weekend = 2024-05-11..2024-05-13
         twee weken geleden = 2024-04-29..2024-05-06
         een maand geleden = 2024-04-01..2024-05-01
         3 dagen geleden = 2024-05-12..2024-05-13
         de afgelopen twee weken = 2024-05-01..2024-05-16
         de laatste 3 maanden = 2024-02-15..2024-05-16
         de afgelopen paar dagen = 2024-05-10..2024-05-16
         in maart = 2024-03-01..2024-04-01
         in maart 2023 = 2023-03-01..2023-04-01
         begin maart = 2024-03-01..2024-03-11
         op 7 mei 2023 = 2023-05-07..2023-05-08
         op 7 mei = 2024-05-07..2024-05-08
         op 7 jan = 2024-01-07..2024-01-08
         op 7-5 = 2024-05-07..2024-05-08
         op 7/5/2023 = 2023-05-07..2023-05-08
         7-5-2023 = 2023-05-07..2023-05-08
         sinds maart = 2024-03-01..2024-05-16
         sinds twee weken = 2024-05-01..2024-05-16
         vanaf 7 mei = 2024-05-07..2024-05-16
         tot 7 mei = ..2024-05-08
         voor 7 mei = ..2024-05-07
         tussen 3 en 7 mei = 2024-05-03..2024-05-08
         tussen maart en april = 2024-03-01..2024-05-01
         van maart tot en met april = 2024-03-01..2024-05-01
         in 2022 = 2022-01-01..2023-01-01
         wat zei Jan = -
         een recept voor later = -
         goede morgen = -
         wat is mijn laatste vraag = -
         een paar weken geleden = -
         over een week = -
         waar woon ik = -",
    );
}

#[test]
fn german() {
    check(
        "de",
        "was habe ich gestern gesagt? = 2024-05-14..2024-05-15
         vorgestern = 2024-05-13..2024-05-14
         heute Morgen = 2024-05-15..2024-05-15T12:00
         gestern Abend = 2024-05-14T18:00..2024-05-15T06:00
         morgen = 2024-05-16..2024-05-17
         letzte Woche = 2024-05-06..2024-05-13
         letzten Montag = 2024-05-13..2024-05-14
         am Freitag = 2024-05-10..2024-05-11
         vor zwei Wochen = 2024-04-29..2024-05-06
         vor einem Jahr = 2023-01-01..2024-01-01
         in den letzten drei Monaten = 2024-02-15..2024-05-16
         letztes Jahr = 2023-01-01..2024-01-01
         im März = 2024-03-01..2024-04-01
         im März 2023 = 2023-03-01..2023-04-01
         am 7. Mai 2023 = 2023-05-07..2023-05-08
         am 7.5. = 2024-05-07..2024-05-08
         am 7.5.2023 = 2023-05-07..2023-05-08
         seit März = 2024-03-01..2024-05-16
         vor dem 7. Mai = ..2024-05-07
         zwischen März und April = 2024-03-01..2024-05-01
         im Jahr 2022 = 2022-01-01..2023-01-01
         Guten Morgen = -
         am Morgen = -
         vor dem Essen = -
         mein letzter Hund = -",
    );
}

#[test]
fn french() {
    check(
        "fr",
        "qu'est-ce que j'ai dit hier ? = 2024-05-14..2024-05-15
         avant-hier = 2024-05-13..2024-05-14
         aujourd'hui = 2024-05-15..2024-05-16
         hier soir = 2024-05-14T18:00..2024-05-15T06:00
         ce matin = 2024-05-15..2024-05-15T12:00
         la semaine dernière = 2024-05-06..2024-05-13
         le mois dernier = 2024-04-01..2024-05-01
         lundi dernier = 2024-05-13..2024-05-14
         la semaine prochaine = 2024-05-20..2024-05-27
         il y a deux semaines = 2024-04-29..2024-05-06
         les deux dernières semaines = 2024-05-01..2024-05-16
         cette année = 2024-01-01..2025-01-01
         en mars = 2024-03-01..2024-04-01
         en mars 2023 = 2023-03-01..2023-04-01
         le 7 mai 2023 = 2023-05-07..2023-05-08
         le 1er mai = 2024-05-01..2024-05-02
         depuis mars = 2024-03-01..2024-05-16
         entre mars et avril = 2024-03-01..2024-05-01
         en 2022 = 2022-01-01..2023-01-01
         la planète Mars = -
         mon dernier livre = -",
    );
}

#[test]
fn spanish() {
    check(
        "es",
        "¿qué dije ayer? = 2024-05-14..2024-05-15
         anteayer = 2024-05-13..2024-05-14
         anoche = 2024-05-14T18:00..2024-05-15T06:00
         esta mañana = 2024-05-15..2024-05-15T12:00
         mañana = 2024-05-16..2024-05-17
         la semana pasada = 2024-05-06..2024-05-13
         el mes pasado = 2024-04-01..2024-05-01
         el lunes pasado = 2024-05-13..2024-05-14
         la semana que viene = 2024-05-20..2024-05-27
         hace dos semanas = 2024-04-29..2024-05-06
         las últimas dos semanas = 2024-05-01..2024-05-16
         este año = 2024-01-01..2025-01-01
         en marzo = 2024-03-01..2024-04-01
         en marzo de 2023 = 2023-03-01..2023-04-01
         el 7 de mayo de 2023 = 2023-05-07..2023-05-08
         desde marzo = 2024-03-01..2024-05-16
         entre marzo y abril = 2024-03-01..2024-05-01
         en 2022 = 2022-01-01..2023-01-01
         por la mañana = -
         mi último libro = -",
    );
}

#[test]
fn a_day_is_a_day_where_the_user_lives() {
    let now = "2024-05-15T23:30:00Z".parse().expect("a time");
    let yesterday = |zone: &str| range("yesterday", Tongue::English, now, &super::zone(zone).expect("a zone"));
    let found = yesterday("+02:00").expect("a day");
    assert_eq!((short(found.from), short(found.to)), ("2024-05-14T22:00".into(), "2024-05-15T22:00".into()));
    let found = yesterday("-0330").expect("a day");
    assert_eq!((short(found.from), short(found.to)), ("2024-05-14T03:30".into(), "2024-05-15T03:30".into()));
}

#[test]
fn zones_have_names_and_offsets() {
    for good in ["UTC", "Z", "+2", "+02", "+02:00", "-1130"] {
        assert!(zone(good).is_some(), "{good}");
    }
    for bad in ["", "+", "+99:00", "+02:75", "Moon/Base", "+é0"] {
        assert!(zone(bad).is_none(), "{bad}");
    }
}

#[test]
fn months_that_are_named() {
    let check = |code: &str, rows: &str| {
        let tongue = Tongue::from_code(code).expect("one of the five");
        for row in rows.lines() {
            let (text, expected) = row.trim().rsplit_once(" = ").expect("text = months");
            let found = months(text, tongue);
            let found = found.iter().map(|MonthNamed { month, year, days }| {
                format!("{month} {} {days:?}", year.map_or("-".into(), |year| year.to_string()))
            });
            let found = found.collect::<Vec<_>>().join(" + ");
            assert_eq!(if found.is_empty() { "-" } else { &found }, expected, "{text}");
        }
    };
    check(
        "en",
        "What did Ann do in July? = 7 - []
         What did Ann do on 7 May 2023? = 5 2023 [7]
         What happened on May 7th, 2023? = 5 2023 [7]
         What did Ann do in May? = 5 - []
         May I ask? = -
         the march in April = 4 - []
         in early March 2022 = 3 2022 []
         on the 3rd and 5th of June = 6 - [3, 5]
         In 2022, what happened in October? = 10 2022 []
         June or July = 6 - [] + 7 - []
         on 2023-05-07 = 5 2023 [7]
         what did Jan say = -",
    );
    check("nl", "Wat deed Anna in mei? = 5 - []\nop 7 maart 2023 = 3 2023 [7]\nwat zei Jan = -");
    check("de", "am 7. Mai 2023 = 5 2023 [7]\nim März = 3 - []");
    check("fr", "le 7 mars 2023 = 3 2023 [7]\nla planète Mars = -\nen mars = 3 - []");
    check("es", "el 7 de mayo de 2023 = 5 2023 [7]\nen marzo = 3 - []");
}

proptest! {
    #[test]
    fn no_text_and_no_clock_is_too_much(text in texts(), second in -377_705_023_201i64..253_402_207_200, offset in -93_599i32..93_599) {
        let now = Timestamp::from_second(second).expect("in range");
        let zone = TimeZone::fixed(Offset::from_seconds(offset).expect("in range"));
        for tongue in Tongue::ALL {
            if let Some(found) = range(&text, tongue, now, &zone) {
                prop_assert!(found.from < found.to);
            }
            for named in months(&text, tongue) {
                prop_assert!((1..=12).contains(&named.month));
            }
        }
    }
}

/// Any text, and texts made of the words that dates are made of.
fn texts() -> impl Strategy<Value = String> {
    let words = "since until before after between and from to in on the of last this next past week weekend month year days
        ago a two few 7 29 31 2023 1900 2100 999 may february march monday yesterday tonight early late 7th 2/29 30/2/2023
        sinds tot voor tussen en van vorige afgelopen weken geleden mei maandag vor zwei wochen il y a deux semaines dernière
        hace dos semanas pasada que viene de mayo 1/1 1.1. 2023-02-30 9999-12-31";
    let words: Vec<&str> = words.split_whitespace().collect();
    let made = prop::collection::vec(prop::sample::select(words), 1..9).prop_map(|words| words.join(" "));
    prop_oneof![made, "\\PC{0,40}".prop_map(String::from)]
}
