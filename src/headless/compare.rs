//! `compare`: two traces, or two scenarios of one, with the operators that make the difference.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use color_eyre::eyre::{Result, eyre};

use crate::cli::{CompareArgs, Edit, Iteration, ScenarioArgs};
use crate::scenario::Scenario;
use crate::session::{Comparison, Engine, Faster, Loaded, Side};
use crate::units::DurNs;

use super::{input, output};

/// Rows that people see; programs get all.
const SHOWN: usize = 20;

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit or a scenario file cannot be read, or there is nothing to compare with.
pub fn run(args: &CompareArgs, iteration: Iteration) -> Result<()> {
    let engine = input::engine()?;
    let desk = Desk { engine: &engine, args, iteration };
    let (loaded, a, b) = desk.sides()?;
    let comparison = a.compare(&b, args.calls);
    let mut json = input::Envelope::new(&loaded[0], &comparison);
    json.traces.extend(loaded[1..].iter().flat_map(input::paths));
    let shown = if args.calls { usize::MAX } else { SHOWN };
    output::write(&args.output, &json, |out| describe(&comparison, shown, out), || table(&comparison))?;
    Ok(())
}

struct Desk<'a> {
    engine: &'a Engine,
    args: &'a CompareArgs,
    iteration: Iteration,
}

fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

impl Desk<'_> {
    /// Both sides, and their jobs: one or two.
    fn sides(&self) -> Result<(Vec<Loaded>, Side, Side)> {
        let (a, edits) = (&self.args.a, &self.args.scenario.edits);
        match &self.args.b {
            None if is_scenario(a) => self.of_one(&self.args.on, None, Some(a)),
            None if edits.is_empty() => Err(eyre!("compare takes two traces or scenario files, or a trace and edits")),
            None => {
                let loaded = self.open(std::slice::from_ref(a))?;
                let before = self.simulate(&loaded, &Scenario::default(), "unedited".to_owned());
                let after = self.edited(&loaded, None)?;
                Ok((vec![loaded], before, after))
            }
            Some(b) => match (is_scenario(a), is_scenario(b)) {
                (true, true) => self.of_one(&self.args.on, Some(a), Some(b)),
                (true, false) => self.of_one(std::slice::from_ref(b), Some(a), None),
                (false, true) => self.of_one(std::slice::from_ref(a), None, Some(b)),
                (false, false) => self.of_two(a, b),
            },
        }
    }

    fn open(&self, paths: &[PathBuf]) -> Result<Loaded> {
        input::open_one(self.engine, paths, self.iteration)
    }

    fn simulate(&self, loaded: &Loaded, scenario: &Scenario, name: String) -> Side {
        Side::simulated(loaded, &self.engine.evaluate(loaded, scenario, 0), name)
    }

    /// The trace with the edits of the arguments and those of a scenario file.
    fn edited(&self, loaded: &Loaded, file: Option<&Path>) -> Result<Side> {
        let mut edits = self.args.scenario.edits.clone();
        edits.extend(file.map(|file| Edit::File(file.to_owned())));
        let force = self.args.scenario.force;
        let wanted = input::Wanted::read(self.engine, &ScenarioArgs { edits, force })?;
        wanted.strangers(loaded, force)?;
        let steps = || wanted.scenario.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let name = file.map_or_else(steps, |file| file.display().to_string());
        Ok(self.simulate(loaded, &wanted.scenario, if name.is_empty() { "unedited".to_owned() } else { name }))
    }

    /// Two scenarios on one trace; `None` is that of the other arguments alone.
    fn of_one(&self, trace: &[PathBuf], a: Option<&PathBuf>, b: Option<&PathBuf>) -> Result<(Vec<Loaded>, Side, Side)> {
        let loaded = self.open(trace)?;
        let (a, b) = (self.edited(&loaded, a.map(PathBuf::as_path))?, self.edited(&loaded, b.map(PathBuf::as_path))?);
        Ok((vec![loaded], a, b))
    }

    /// Two traces: the first as measured, or with the edits; the second as measured.
    fn of_two(&self, a: &Path, b: &Path) -> Result<(Vec<Loaded>, Side, Side)> {
        let (first, second) = (self.open(&[a.to_owned()])?, self.open(&[b.to_owned()])?);
        let is_edited = !self.args.scenario.edits.is_empty();
        let other = Side::measured(&second, second.title.clone());
        let own = if is_edited { self.edited(&first, None)? } else { Side::measured(&first, first.title.clone()) };
        Ok((vec![first, second], own, other))
    }
}

fn signed(change: DurNs) -> String {
    if change.0 > 0 { format!("+{change}") } else { change.to_string() }
}

fn describe(comparison: &Comparison, shown: usize, out: &mut dyn Write) -> io::Result<()> {
    let Comparison { a, b, delta_ns, error_ns, .. } = comparison;
    for (letter, side) in [("A", a), ("B", b)] {
        let band =
            if side.low_ns == side.high_ns { String::new() } else { format!(", {} to {}", side.low_ns, side.high_ns) };
        writeln!(out, "{letter}  {} {}{band}  {}", side.iteration_ns, side.source, side.name)?;
    }
    let share = 100.0 * delta_ns.0 as f64 / a.iteration_ns.0.max(1) as f64;
    let by = format!("{} ({share:+.1} %) from A to B, error ±{error_ns}", signed(*delta_ns));
    match comparison.verdict {
        Faster::AFaster => writeln!(out, "A is faster: {by}")?,
        Faster::BFaster => writeln!(out, "B is faster: {by}")?,
        Faster::CannotTell => writeln!(out, "cannot tell which is faster: {by}")?,
    }
    writeln!(out, "\n{} time by operator:", comparison.time)?;
    let mut table = output::Table::new(&["operator", "A", "B", "B − A", "calls A", "calls B"]);
    for row in comparison.rows.iter().take(shown) {
        let times = [row.a_ns.to_string(), row.b_ns.to_string(), signed(row.delta_ns)];
        let counts = [row.a_count.to_string(), row.b_count.to_string()];
        table.row([row.name.clone()].into_iter().chain(times).chain(counts));
    }
    output::text(&table, &mut *out)?;
    let more = comparison.rows.len().saturating_sub(shown);
    if more > 0 { writeln!(out, "… and {more} more with smaller differences (--json, --csv)") } else { Ok(()) }
}

fn table(comparison: &Comparison) -> output::Table {
    let mut table = output::Table::new(&["name", "a_ns", "b_ns", "delta_ns", "a_count", "b_count", "matched"]);
    for row in &comparison.rows {
        let figures =
            [row.a_ns.0, row.b_ns.0, row.delta_ns.0, row.a_count as i64, row.b_count as i64, row.matched as i64];
        table.row([row.name.clone()].into_iter().chain(figures.map(|figure| figure.to_string())));
    }
    table
}
