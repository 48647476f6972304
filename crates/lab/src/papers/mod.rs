//! `lab papers`: every worked value and table of the papers, against what the models here give from the same inputs.
//!
//! The papers' inputs and printed figures are facts kept here; what is put beside them is computed.

mod cardwell;
mod gemm_rates;
mod kakrannava;
mod li;
mod li_models;
mod lin;
mod live;
mod published;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use color_eyre::eyre::Result;
use serde::Serialize;

use crate::FAILED;
use retime::cli::OutputArgs;
use retime::headless::output;
use retime::session::read_table;
use retime_core::device::Catalog;

/// Arguments of `lab papers`.
#[derive(Args)]
pub(crate) struct PapersArgs {
    /// A table of end-to-end errors read off Lin 2022 Fig. 9 (columns `gpu`, `err_gpu_active_pct`, `err_e2e_pct`,
    /// `err_e2e_shared_overheads_pct`), to be summed up beside Table V.
    #[arg(long, value_name = "CSV")]
    figures: Option<PathBuf>,
    /// A built retime, whose commands give the live rows; without it there are none.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write docs/papers.md to standard output.
    #[arg(long, requires = "program")]
    page: bool,
    /// How to write the result.
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<Check>,
}

/// A printed or computed figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Figure {
    Number(f64),
    Word(String),
    None,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Pass,
    Fail,
    PaperContradicts,
    Reported,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::PaperContradicts => "paper-contradicts",
            Self::Reported => "reported",
        }
    }
}

/// What a row tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Class {
    /// The figure comes from a command that a user can run.
    Live,
    /// The figure comes from the product's code on the paper's inputs.
    Model,
    /// The figure is arithmetic on columns that the paper itself prints: no test of the models.
    Identity,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Model => "model",
            Self::Identity => "identity",
        }
    }
}

/// One figure of a paper and ours.
#[derive(Clone, Debug, Serialize)]
struct Check {
    #[serde(rename = "check")]
    name: String,
    class: Class,
    /// The command that gives it, of live rows.
    command: Option<String>,
    expected: Figure,
    got: Figure,
    error: Option<f64>,
    status: Status,
    source: String,
    /// What is to be said: which of the paper's inputs contradicts its figure, or what is assumed.
    note: Option<String>,
}

impl Check {
    /// A figure that must come out within the relative `tolerance`.
    fn number(check: impl Into<String>, source: &str, expected: f64, got: f64, tolerance: f64) -> Self {
        let error = if expected == 0.0 { got } else { got / expected - 1.0 };
        let status = if error.abs() <= tolerance { Status::Pass } else { Status::Fail };
        Self {
            name: check.into(),
            class: Class::Model,
            command: None,
            expected: Figure::Number(expected),
            got: Figure::Number(got),
            error: Some(error),
            status,
            source: source.to_owned(),
            note: None,
        }
    }

    /// A figure that must come out as printed: within half a unit of its last of `digits` decimals, and a little for
    /// inputs that are rounded themselves.
    fn printed(check: impl Into<String>, source: &str, expected: f64, got: f64, digits: i32) -> Self {
        let rounding = 0.5 * 10f64.powi(-digits) / expected.abs().max(1e-300);
        Self::number(check, source, expected, got, rounding + ROUNDED_INPUTS)
    }

    /// A word that must come out.
    fn word(check: impl Into<String>, source: &str, expected: &str, got: &str) -> Self {
        let status = if expected == got { Status::Pass } else { Status::Fail };
        Self {
            name: check.into(),
            class: Class::Model,
            command: None,
            expected: Figure::Word(expected.to_owned()),
            got: Figure::Word(got.to_owned()),
            error: None,
            status,
            source: source.to_owned(),
            note: None,
        }
    }

    /// Where ours differs, the paper's own inputs do: `why` says which.
    fn contradicted(mut self, why: &str) -> Self {
        if self.status == Status::Fail {
            self.status = Status::PaperContradicts;
            self.note = Some(why.to_owned());
        }
        self
    }

    /// Arithmetic on what the paper prints.
    fn identity(self) -> Self {
        Self { class: Class::Identity, ..self }
    }

    /// Shown without judgement: `why` says what stands against one.
    fn reported(mut self, why: &str) -> Self {
        self.status = Status::Reported;
        self.note = Some(why.to_owned());
        self
    }
}

/// What rounded inputs may shift a figure by.
const ROUNDED_INPUTS: f64 = 0.002;

/// Runs the command.
///
/// # Returns
/// The exit status: 0, or 3 when a figure does not come out.
///
/// # Errors
/// The table of `--figures` cannot be read, or standard output cannot be written.
pub(crate) fn run(args: &PapersArgs) -> Result<u8> {
    let catalog = Catalog::builtin()?;
    let figures = args.figures.as_deref().map(read_table).transpose()?;
    if let Some(program) = args.program.as_deref().filter(|_| args.page) {
        print!("{}", live::page(program)?);
        return Ok(0);
    }
    let mut rows = args.program.as_deref().map(live::checks).transpose()?.unwrap_or_default();
    rows.extend(checks(&catalog, figures.as_deref()));
    let answer = Answer { rows };
    output::write(&args.output, &answer, |out| describe(&answer.rows, out), || table(&answer.rows))?;
    Ok(status(&answer.rows))
}

fn status(rows: &[Check]) -> u8 {
    if rows.iter().any(|row| row.status == Status::Fail) { FAILED } else { 0 }
}

/// All checks, paper by paper.
fn checks(catalog: &Catalog, figures: Option<&str>) -> Vec<Check> {
    let mut rows = kakrannava::checks(catalog);
    rows.extend(cardwell::checks(catalog));
    // Intensities and rates of Li's tables are quotients of their own columns; which roof bounds a row is the product's word.
    let of_columns = |row: Check| if matches!(row.expected, Figure::Number(_)) { row.identity() } else { row };
    rows.extend(li::checks().into_iter().chain(li_models::checks()).map(of_columns));
    rows.extend(lin::checks(catalog, figures));
    rows.extend(published::checks());
    rows
}

fn describe(rows: &[Check], out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(rows), out)?;
    for row in rows {
        if let Some(note) = row.note.as_deref().filter(|_| row.status == Status::PaperContradicts) {
            writeln!(out, "{}: {note}", row.name)?;
        }
    }
    for class in [Class::Live, Class::Model, Class::Identity] {
        let count = |status| rows.iter().filter(|row| row.class == class && row.status == status).count();
        let (pass, fail) = (count(Status::Pass), count(Status::Fail));
        let (against, reported) = (count(Status::PaperContradicts), count(Status::Reported));
        let (name, pass) = match class {
            Class::Identity => (class.name(), format!("{pass} agree, no test of a model")),
            Class::Live | Class::Model => (class.name(), format!("{pass} pass")),
        };
        writeln!(
            out,
            "{name}: {pass}, {fail} fail, {against} where the paper contradicts itself, {reported} reported"
        )?;
    }
    Ok(())
}

fn table(rows: &[Check]) -> output::Table {
    let mut table = output::Table::new(&["check", "class", "expected", "got", "error %", "status", "source"]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.class.name().to_owned(),
            shown(&row.expected),
            shown(&row.got),
            row.error.map_or(String::new(), |error| format!("{:+.2}", 100.0 * error)),
            row.status.name().to_owned(),
            row.source.clone(),
        ]);
    }
    table
}

/// Whole numbers in full, others with five significant digits.
fn shown(figure: &Figure) -> String {
    match figure {
        Figure::Word(word) => word.clone(),
        Figure::None => "–".to_owned(),
        Figure::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        Figure::Number(value) => {
            let whole = value.abs().log10().floor() as i32;
            let decimals = usize::try_from(4 - whole).unwrap_or(0);
            format!("{value:.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_fails_and_every_paper_is_there() {
        let rows = checks(&Catalog::builtin().unwrap(), None);
        let failed: Vec<&Check> = rows.iter().filter(|row| row.status == Status::Fail).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        assert_eq!(status(&rows), 0);
        for paper in ["Kakrannava 2024", "Cardwell 2019", "Li 2019", "Lin 2022", "Lin 2024"] {
            assert!(rows.iter().any(|row| row.source.starts_with(paper)), "{paper}");
        }
    }

    #[test]
    fn known_contradictions_are_named_with_what_contradicts() {
        let rows = checks(&Catalog::builtin().unwrap(), None);
        for check in ["BLIMP K2 im2col estimate", "P4 ideal intensity", "M60 ideal intensity", "optimal batch"] {
            let row = rows.iter().find(|row| row.name.contains(check)).unwrap();
            assert_eq!(row.status, Status::PaperContradicts, "{check}");
            assert!(row.note.is_some());
        }
    }

    #[test]
    fn a_wrong_figure_fails() {
        let wrong = Check::printed("x", "s", 17.44, 17.60, 2);
        assert_eq!((wrong.status, status(&[wrong])), (Status::Fail, FAILED));
        assert_eq!(Check::printed("x", "s", 17.44, 17.4444, 2).status, Status::Pass);
        assert_eq!(Check::word("x", "s", "memory", "compute").status, Status::Fail);
        assert_eq!(Check::number("x", "s", 1.0, 1.0, 0.0).contradicted("y").status, Status::Pass);
    }

    #[test]
    fn figures_show_five_digits() {
        let shown = |value| shown(&Figure::Number(value));
        assert_eq!([shown(70_276_800.0), shown(17.444_44), shown(0.000_207_123)], ["70276800", "17.444", "0.00020712"]);
    }
}
