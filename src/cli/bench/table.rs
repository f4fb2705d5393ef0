//! Results, for people and for scripts.

use serde::Serialize;

/// One measured thing.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) measured: String,
    /// The same without us, in the same run.
    pub(super) beside: Option<String>,
    /// Ours against that.
    pub(super) ratio: Option<f64>,
    /// What was promised, and what is hoped for.
    pub(super) must: Option<String>,
    pub(super) goal: Option<String>,
}

/// All of them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) machine: String,
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// Prints a Markdown table, or JSON.
    #[allow(clippy::print_stdout, reason = "a bench reports to the terminal")]
    pub(super) fn print(&self, json: bool) {
        if json {
            println!("{}", serde_json::to_string_pretty(self).expect("plain values always serialise"));
            return;
        }
        println!("{}\n", self.machine);
        println!("| what | recalld | beside | ratio | must | goal |");
        println!("| --- | --- | --- | --- | --- | --- |");
        for row in &self.rows {
            let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
            let ratio = row.ratio.map_or("–".into(), |ratio| format!("{ratio:.2}"));
            let (beside, must, goal) = (or_dash(&row.beside), or_dash(&row.must), or_dash(&row.goal));
            println!("| {} | {} | {beside} | {ratio} | {must} | {goal} |", row.what, row.measured);
        }
    }
}

/// What was measured on, in a line.
pub(super) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1).map(str::to_owned));
    format!("recalld {}, {cores} cores, {}", env!("CARGO_PKG_VERSION"), name.unwrap_or_else(|| "unknown CPU".into()))
}
