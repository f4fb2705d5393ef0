//! The cheaper one, the biggest, the earlier: options by what can be measured of them.

use super::ChoiceOption;
use super::table::{Measure, Scale, Table};
use crate::language::{Phrases, Tongue, Word, words};

/// The option that an answer picks by comparing; `None` when it does not compare, or the options cannot be compared.
///
/// "The cheaper one" is one of two; "the cheapest" may be one of many.
pub(super) fn extreme(
    options: &[ChoiceOption],
    table: &Table,
    said: &[Word<'_>],
    says_nothing: impl Fn(&str) -> bool,
) -> Option<usize> {
    table.compare.iter().find_map(|scale| {
        let low = direction(scale, said, options.len(), &says_nothing)?;
        best(&measured(options, scale, table)?, low)
    })
}

/// Whether the smallest is wanted; `None` when nothing is compared on this scale.
fn direction(scale: &Scale, said: &[Word<'_>], options: usize, says_nothing: &impl Fn(&str) -> bool) -> Option<bool> {
    let ways: [(&Phrases, bool, bool); 4] = [
        (&scale.least, true, true),
        (&scale.most, false, true),
        (&scale.less, true, false),
        (&scale.more, false, false),
    ];
    let fits = |phrases: &Phrases| {
        let found = phrases.found(said);
        let is_inside = |at: usize| found.iter().any(|range| range.contains(&at));
        !found.is_empty() && said.iter().enumerate().all(|(at, word)| is_inside(at) || says_nothing(&word.text))
    };
    let way = ways.into_iter().find(|(phrases, _, any)| (*any || options == 2) && fits(phrases))?;
    Some(way.1)
}

/// The place of the one that is smallest, or largest; `None` when two are.
fn best(values: &[f64], low: bool) -> Option<usize> {
    let beats = |a: f64, b: f64| if low { a < b } else { a > b };
    (0..values.len()).find(|at| (0..values.len()).all(|other| other == *at || beats(values[*at], values[other])))
}

/// What each option measures; `None` when one does not say, or they say it in units that do not compare.
fn measured(options: &[ChoiceOption], scale: &Scale, table: &Table) -> Option<Vec<f64>> {
    let quantities: Option<Vec<Quantity>> = options.iter().map(|option| quantity(option, scale, table)).collect();
    let quantities = quantities?;
    let same = quantities.iter().all(|quantity| quantity.kind == quantities[0].kind);
    same.then(|| quantities.into_iter().map(|quantity| quantity.value).collect())
}

/// A number and what it counts.
#[derive(Debug, Clone, PartialEq)]
struct Quantity {
    value: f64,
    kind: &'static str,
}

fn quantity(option: &ChoiceOption, scale: &Scale, table: &Table) -> Option<Quantity> {
    let is_key = |name: &str| words(name).any(|word| scale.keys.contains(&*word) || english_key(&word, scale.of));
    let named = option.attributes.iter().find(|(name, _)| is_key(name)).map(|(_, value)| value.as_str());
    if let Some(value) = named {
        return read(value, scale.of, table)
            .or_else(|| numbers(value).next().map(|n| Quantity { value: n.value, kind: "" }));
    }
    let rest = option.attributes.values().map(String::as_str);
    std::iter::once(option.label.as_str()).chain(rest).find_map(|text| read(text, scale.of, table))
}

/// Attributes may have English names in any conversation.
fn english_key(word: &str, measure: Measure) -> bool {
    let scales = &Table::of(Tongue::English).compare;
    scales.iter().any(|scale| scale.of == measure && scale.keys.contains(word))
}

/// What a text measures, if it says so by a unit.
fn read(text: &str, measure: Measure, table: &Table) -> Option<Quantity> {
    let by_unit = |kind: fn(&str) -> Option<(&'static str, f64)>| {
        numbers(text).find_map(|number| {
            let (kind, factor) = kind(number.before).or_else(|| kind(number.after))?;
            Some(Quantity { value: number.value * factor, kind })
        })
    };
    match measure {
        Measure::Price => by_unit(currency),
        Measure::Weight => by_unit(weight),
        Measure::Size => by_unit(extent).or_else(|| by_word(text, table)),
        Measure::Age => numbers(text).find_map(year),
        Measure::Time => clock_time(text),
    }
}

fn currency(unit: &str) -> Option<(&'static str, f64)> {
    Some(match unit {
        "€" | "eur" | "euro" | "euros" => ("eur", 1.0),
        "$" | "usd" | "dollar" | "dollars" => ("usd", 1.0),
        "£" | "gbp" | "pound" | "pounds" => ("gbp", 1.0),
        "chf" | "franken" => ("chf", 1.0),
        "ct" | "cent" | "cents" => ("eur", 0.01),
        "kr" | "sek" | "nok" | "dkk" => ("kr", 1.0),
        "¥" | "jpy" | "yen" => ("jpy", 1.0),
        _ => return None,
    })
}

fn weight(unit: &str) -> Option<(&'static str, f64)> {
    Some(match unit {
        "mg" => ("g", 0.001),
        "g" | "gram" | "grams" | "gramm" | "grammes" | "gramos" => ("g", 1.0),
        "kg" | "kilo" | "kilos" => ("g", 1_000.0),
        "t" | "ton" | "tonne" | "tonnes" => ("g", 1_000_000.0),
        "oz" => ("oz", 1.0),
        "lb" | "lbs" => ("oz", 16.0),
        _ => return None,
    })
}

fn extent(unit: &str) -> Option<(&'static str, f64)> {
    Some(match unit {
        "mm" => ("m", 0.001),
        "cm" => ("m", 0.01),
        "m" | "meter" | "meters" | "metre" | "metres" => ("m", 1.0),
        "km" => ("m", 1_000.0),
        "inch" | "inches" | "in" | "\"" | "″" | "zoll" => ("inch", 1.0),
        "ft" | "feet" | "foot" => ("inch", 12.0),
        "ml" => ("l", 0.001),
        "cl" => ("l", 0.01),
        "dl" => ("l", 0.1),
        "l" | "liter" | "liters" | "litre" | "litres" | "litros" => ("l", 1.0),
        "m2" | "m²" | "sqm" | "qm" => ("m2", 1.0),
        "kb" => ("gb", 0.000_001),
        "mb" => ("gb", 0.001),
        "gb" => ("gb", 1.0),
        "tb" => ("gb", 1_000.0),
        "min" | "mins" | "minute" | "minutes" | "minuten" | "minuut" | "minutos" => ("min", 1.0),
        "h" | "hour" | "hours" | "uur" | "stunde" | "stunden" | "heure" | "heures" | "hora" | "horas" => ("min", 60.0),
        "day" | "days" | "dag" | "dagen" | "tag" | "tage" | "jour" | "jours" | "día" | "días" => ("min", 1_440.0),
        "week" | "weeks" | "weken" | "woche" | "wochen" | "semaine" | "semaines" | "semana" | "semanas" => {
            ("min", 10_080.0)
        }
        _ => return None,
    })
}

/// "Small", "XL": where a size has a name.
fn by_word(text: &str, table: &Table) -> Option<Quantity> {
    let english = Table::of(Tongue::English);
    let rank = words(text).find_map(|word| table.size(&word).or_else(|| english.size(&word)))?;
    Some(Quantity { value: rank as f64, kind: "named" })
}

fn year(number: Number<'_>) -> Option<Quantity> {
    let is_year = number.value.fract() == 0.0 && (1_000.0..3_000.0).contains(&number.value);
    is_year.then_some(Quantity { value: number.value, kind: "year" })
}

/// `9:30`, `14.15`, `3 pm`, in minutes.
fn clock_time(text: &str) -> Option<Quantity> {
    let minutes = |value: f64| Some(Quantity { value, kind: "clock" });
    for part in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, ':' | '.'))) {
        if let Some((hours, minute)) = part.split_once([':', '.'])
            && let (Ok(hours), Ok(minute)) = (hours.parse::<u8>(), minute.get(..2).unwrap_or("").parse::<u8>())
            && hours < 24
            && minute < 60
        {
            let later = if text.to_lowercase().contains("pm") && hours < 12 { 12.0 } else { 0.0 };
            return minutes((f64::from(hours) + later) * 60.0 + f64::from(minute));
        }
    }
    numbers(text).find_map(|number| match (number.after, number.value < 24.0) {
        ("am" | "uur" | "uhr" | "h", true) => minutes(number.value * 60.0),
        ("pm", true) => minutes((number.value % 12.0 + 12.0) * 60.0),
        _ => None,
    })
}

/// A number in a text, with the words or signs beside it in lower case.
#[derive(Debug, Clone, Copy)]
struct Number<'a> {
    value: f64,
    before: &'a str,
    after: &'a str,
}

fn numbers(text: &str) -> impl Iterator<Item = Number<'_>> {
    let digit = |c: char| c.is_ascii_digit();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(digit)?;
        let end = text[start..].find(|c: char| !(digit(c) || matches!(c, '.' | ','))).map_or(text.len(), |n| start + n);
        at = end;
        let written = text[start..end].trim_end_matches(['.', ',']);
        Some((start, end, written))
    })
    .filter_map(move |(start, end, written)| {
        let value = amount(written)?;
        Some(Number { value, before: unit_before(&text[..start]), after: unit_after(&text[end..]) })
    })
}

/// `1,200.50`, `1.200,50`, `12,5`: what is the point and what only groups is told by how many digits follow.
fn amount(written: &str) -> Option<f64> {
    let point = written.rfind(['.', ',']).filter(|at| {
        let mark = written[*at..].chars().next();
        let behind = written.len() - at - 1;
        let once = written.chars().filter(|c| Some(*c) == mark).count() == 1;
        once && (behind != 3 || written.starts_with("0"))
    });
    let is_digit = |c: &char| c.is_ascii_digit();
    let (whole, part) = point.map_or((written, ""), |at| (&written[..at], &written[at + 1..]));
    let whole: String = whole.chars().filter(is_digit).collect();
    let part: String = part.chars().filter(is_digit).collect();
    format!("{whole}.{part}0").parse().ok()
}

/// The sign or word right before a number.
fn unit_before(text: &str) -> &str {
    let text = text.trim_end();
    let sign = text.char_indices().next_back().filter(|(_, c)| !c.is_alphanumeric());
    match sign {
        Some((at, _)) => &text[at..],
        None => text.rsplit(|c: char| !c.is_alphabetic()).next().map_or("", known_unit),
    }
}

/// The sign or word right behind a number.
fn unit_after(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '-', '\u{a0}', '\u{202f}']);
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '²')).unwrap_or(text.len());
    match text.chars().next() {
        Some(c) if !c.is_alphanumeric() => &text[..c.len_utf8()],
        _ => known_unit(&text[..end]),
    }
}

/// Units are compared in lower case, and nearly always written so; the few others are listed.
fn known_unit(word: &str) -> &str {
    match word {
        "EUR" | "Euro" | "Euros" => "eur",
        "USD" | "Dollar" | "Dollars" => "usd",
        "GBP" => "gbp",
        "CHF" | "Franken" => "chf",
        "KB" | "kB" => "kb",
        "MB" => "mb",
        "GB" => "gb",
        "TB" => "tb",
        "L" => "l",
        "KG" | "Kg" => "kg",
        "G" | "Gramm" => "g",
        "PM" => "pm",
        "AM" => "am",
        "Uhr" => "uhr",
        "Minuten" => "minuten",
        "Stunden" => "stunden",
        "Tage" => "tage",
        "Zoll" => "zoll",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, measure: Measure, expected: Option<f64>) {
        let found = read(text, measure, Table::of(Tongue::English)).map(|quantity| quantity.value);
        assert_eq!(found.map(|value| (value * 1e6).round() / 1e6), expected, "{text}");
    }

    #[test]
    fn prices_are_read_as_they_are_written() {
        for (text, value) in [
            ("Blue mug (12 EUR)", 12.0),
            ("€12.50", 12.5),
            ("12,50 €", 12.5),
            ("1.200,50 euro", 1_200.5),
            ("$1,200", 1_200.0),
            ("€ 12,-", 12.0),
            ("2 mugs for £7", 7.0),
        ] {
            check(text, Measure::Price, Some(value));
        }
        check("12 mugs", Measure::Price, None);
        check("", Measure::Price, None);
    }

    #[test]
    fn other_measures_need_their_unit() {
        check("500 ml", Measure::Size, Some(0.5));
        check("1 l", Measure::Size, Some(1.0));
        check("256 GB", Measure::Size, Some(256.0));
        check("Large", Measure::Size, Some(4.0));
        check("1.5 kg", Measure::Weight, Some(1_500.0));
        check("Model 2021", Measure::Age, Some(2_021.0));
        check("the 9:30 train", Measure::Time, Some(570.0));
        check("3 pm", Measure::Time, Some(900.0));
        check("three", Measure::Size, None);
    }
}
