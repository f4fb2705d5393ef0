//! Tables and times for people.

use jiff::Timestamp;

/// Rows in aligned columns, under a head. The last column is cut where the terminal ends.
pub(super) fn table(head: &[&str], rows: &[Vec<String>], columns: Option<usize>) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let width = |at: usize| all.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).filter_map(width).collect();
    all.iter().map(|row| cut(&line(row, &widths), columns)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn cut(line: &str, columns: Option<usize>) -> String {
    match columns {
        Some(columns) if line.chars().count() > columns => {
            line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

/// A text on one line, without anything a terminal would obey.
pub(super) fn flat(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How long ago something was, roughly; a date when that says more.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    match seconds {
        ..0 => short(at),
        0..60 => "just now".into(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => at.strftime("%Y-%m-%d").to_string(),
    }
}

/// A time to the second.
pub(super) fn short(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A number of things: `1 turn`, `2 turns`.
pub(super) fn counted(n: u64, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// A number of bytes as people say it.
pub(super) fn bytes(n: u64) -> String {
    let mut units = ["B", "KB", "MB", "GB"].into_iter();
    let (mut value, mut unit) = (n as f64, units.next().unwrap_or_default());
    for larger in units {
        if value < 1_000.0 {
            break;
        }
        (value, unit) = (value / 1_000.0, larger);
    }
    if unit == "B" { format!("{n} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &[[&str; 3]], columns: Option<usize>, expected: &str) {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let lines = table(&["ID", "TURNS", "QUESTION"], &rows, columns);
        let expected: Vec<&str> = expected.lines().map(|line| line.trim_start_matches([' ', '|'])).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn columns_are_aligned() {
        check(
            &[["a", "12", "één vraag"], ["long", "3", ""]],
            None,
            "|ID    TURNS  QUESTION
             |a     12     één vraag
             |long  3",
        );
    }

    #[test]
    fn the_terminal_is_not_overrun() {
        check(
            &[["a", "1", "a long question"], ["b", "2", "short"]],
            Some(19),
            "|ID  TURNS  QUESTION
             |a   1      a long …
             |b   2      short",
        );
    }

    #[test]
    fn a_cell_is_one_line() {
        assert_eq!(flat("  two\n lines\tand \x1b[2J an escape "), "two lines and [2J an escape");
    }

    #[test]
    fn times_are_told_as_people_do() {
        let now: Timestamp = "2026-08-01T12:00:00Z".parse().expect("a time");
        for (at, told) in [
            ("2026-08-01T11:59:30Z", "just now"),
            ("2026-08-01T11:57:00Z", "3 min ago"),
            ("2026-08-01T09:00:00Z", "3 h ago"),
            ("2026-07-30T12:00:00Z", "2 d ago"),
            ("2026-03-01T12:00:00Z", "2026-03-01"),
            ("2026-08-01T13:00:00Z", "2026-08-01 13:00:00 UTC"),
        ] {
            assert_eq!(ago(at.parse().expect("a time"), now), told);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "turn")), ["0 turns", "1 turn", "2 turns"]);
    }

    #[test]
    fn sizes_are_told_as_people_do() {
        for (n, told) in [(0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (40_960, "41.0 KB"), (5 << 30, "5.4 GB")] {
            assert_eq!(bytes(n), told);
        }
    }
}
