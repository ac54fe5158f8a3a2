//! Medians and ranges, and their comparison.

use std::time::Duration;

use crate::cluster::{Environment, RequestCounts};

/// Contender and measurement.
pub type RowName = (&'static str, &'static str);

/// Target for a figure, relative to another figure.
pub struct Target {
    pub row: RowName,
    pub baseline: RowName,
    pub max_ratio: f64,
}

/// Maximum number of requests per changed object, including the dry run.
const REQUESTS_MAX: f64 = 2.05;

/// All runs.
#[derive(Default)]
pub struct Results {
    rows: Vec<(RowName, Row)>,
}

#[derive(Default)]
struct Row {
    seconds: Vec<f64>,
    requests: Vec<RequestCounts>,
    objects: usize,
}

impl Results {
    pub fn add(&mut self, what: RowName, took: Duration, requests: RequestCounts, objects: usize) {
        let place = self.rows.iter().position(|(known, _)| *known == what).unwrap_or_else(|| {
            self.rows.push((what, Row::default()));
            self.rows.len() - 1
        });
        let row = &mut self.rows[place].1;
        row.seconds.push(took.as_secs_f64());
        row.requests.push(requests);
        row.objects = objects;
    }

    fn row(&self, what: RowName) -> Option<&Row> {
        self.rows.iter().find(|(known, _)| *known == what).map(|(_, row)| row)
    }

    pub fn print(&self, environment: &Environment, aims: &[Target]) {
        println!("Kubernetes 1.{}, {}.\n", environment.minor(), kubectl_version());
        println!("| program | sync | seconds: median (range) | requests (writes; of these, dry runs) |");
        println!("| --- | --- | --- | --- |");
        let mut rows: Vec<&(RowName, Row)> = self.rows.iter().collect();
        rows.sort_by_key(|((name, _), _)| sort_position(name));
        for ((name, which), row) in rows {
            let RequestCounts { total, writes, dry_runs } = row.requests[row.requests.len() - 1];
            println!("| {name} | {which} | {} | {total} ({writes}, {dry_runs}) |", row.format_times());
        }
        println!("\n| target | result | |\n| --- | --- | --- |");
        for Target { row: of, baseline, max_ratio } in aims {
            let (Some(row), Some(other)) = (self.row(*of), self.row(*baseline)) else { continue };
            let ratio = row.median() / other.median();
            let what = format!("{}, {} ≤ {max_ratio} × {}, {}", of.0, of.1, baseline.0, baseline.1);
            println!("| {what} | {ratio:.2} × | {} |", format_verdict(ratio <= *max_ratio));
        }
        let Some(row) = self.row((crate::ONE_WAVE, crate::FIRST)) else { return };
        let most = row.requests.iter().map(|requests| requests.total).max().unwrap_or(0);
        let ratio = most as f64 / row.objects as f64;
        let met = format_verdict(ratio <= REQUESTS_MAX);
        println!("| total requests per changed object ≤ {REQUESTS_MAX} | {ratio:.3} | {met} |");
    }
}

fn sort_position(name: &str) -> usize {
    let names = [
        crate::ONE_WAVE,
        crate::TEN_WAVES,
        crate::NO_DRY_RUN,
        crate::SERVER_SIDE,
        crate::CLIENT_SIDE,
        crate::BARE,
        crate::BARE_DRY_RUN,
    ];
    names.iter().position(|known| *known == name).unwrap_or(names.len())
}

fn format_verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

impl Row {
    fn sorted(&self) -> Vec<f64> {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        seconds
    }

    fn median(&self) -> f64 {
        let seconds = self.sorted();
        let middle = seconds.len() / 2;
        if seconds.len() % 2 == 1 {
            seconds[middle]
        } else {
            f64::midpoint(seconds[middle - 1], seconds[middle])
        }
    }

    fn format_times(&self) -> String {
        let seconds = self.sorted();
        format!("{:.2} ({:.2} – {:.2})", self.median(), seconds[0], seconds[seconds.len() - 1])
    }
}

fn kubectl_version() -> String {
    let output =
        std::process::Command::new("kubectl").args(["version", "--client"]).output().expect("kubectl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version =
        text.lines().find_map(|line| line.strip_prefix("Client Version: ")).unwrap_or("of unknown version");
    format!("kubectl {version}")
}
