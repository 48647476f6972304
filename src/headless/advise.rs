//! `advise`: every edit tried alone and the best together, what a goal takes, and what the iteration is sensitive to.

use std::io::{self, Write};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{AdviseArgs, Iteration};
use crate::session::{Advice, AdvisedOption, Section, Sensitivity, advise, alike, parse_target};
use retime_core::units::DurNs;

use super::opened::Opened;
use super::{Misuse, input, output};

/// Options of a section that people read about, at most.
const SHOWN: usize = 20;

#[derive(Debug, Serialize)]
struct Answer {
    base_simulated_ns: DurNs,
    base_steady_ns: DurNs,
    #[serde(flatten)]
    advice: Advice,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit or the target cannot be read, or standard output cannot be written.
pub fn run(args: &AdviseArgs, iteration: Iteration) -> Result<()> {
    let target =
        args.target.as_deref().map(parse_target).transpose().map_err(|error| Misuse(format!("--target {error}")))?;
    let Opened { engine, loaded, outcome, .. } = Opened::of(&args.common, iteration)?;
    let Some(advice) = advise(&engine, &loaded, &outcome, target, &|| false) else { return Ok(()) };
    let json = input::Envelope::new(
        &loaded,
        Answer { base_simulated_ns: outcome.summary.simulated_ns, base_steady_ns: outcome.summary.steady_ns, advice },
    );
    let answer = &json.answer;
    let options = || options(&answer.advice.options);
    output::write(&args.common.input.output, &json, |out| describe(answer, out), options)?;
    Ok(())
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    let Advice { options: found, sensitivity, goal, .. } = &answer.advice;
    writeln!(out, "iteration {}; each option on top of it\n", answer.base_steady_ns)?;
    if found.is_empty() {
        writeln!(out, "{}", answer.advice.none())?;
    } else {
        let groups = alike(found);
        for section in Section::ALL {
            let of_section = groups.iter().filter(|group| found[group[0]].section == section);
            let (count, shown) = (
                of_section.clone().count(),
                of_section.take(SHOWN).map(|group| {
                    let others: Vec<&AdvisedOption> = group[1..].iter().map(|&at| &found[at]).collect();
                    let first = &found[group[0]];
                    AdvisedOption { steps: vec![first.described(&others, "; ")], ..first.clone() }
                }),
            );
            if count > 0 {
                writeln!(out, "{}", section.name())?;
                output::text(&options(&shown.collect::<Vec<_>>()), out)?;
                writeln!(out)?;
            }
            if count > SHOWN {
                writeln!(out, "{} more with --json or --csv\n", count - SHOWN)?;
            }
        }
    }
    if let Some(left_out) = answer.advice.left_out() {
        writeln!(out, "{left_out}")?;
    }
    if let Some(goal) = goal {
        writeln!(out, "{}", goal.sentence())?;
    }
    if found.iter().any(|option| option.assumed_share > 0.0) {
        let why = "assumed: that share of a step's change is judgement, not measured; low and high reach back by it";
        writeln!(out, "{why}")?;
    }
    writeln!(out, "\nwhat it is sensitive to: time saved when a class takes a tenth less, and when it takes none")?;
    output::text(&responses(sensitivity, goal.is_some()), out)
}

fn options(found: &[AdvisedOption]) -> output::Table {
    let mut table = output::Table::new(&[
        "gain_percent",
        "of",
        "simulated_ns",
        "steady_ns",
        "low_ns",
        "high_ns",
        "memory_bytes",
        "hardware",
        "assumed_percent",
        "not_modelled_percent",
        "section",
        "steps",
    ]);
    for option in found {
        table.row([
            format!("{:.2}", 100.0 * option.gain),
            if option.is_per_sample { "sample" } else { "iteration" }.to_owned(),
            option.simulated_ns.0.to_string(),
            option.steady_ns.0.to_string(),
            option.error_band.low_ns.0.to_string(),
            option.error_band.high_ns.0.to_string(),
            option.memory_bytes.map_or("–".to_owned(), |bytes| bytes.0.to_string()),
            if option.is_hardware { "other" } else { "same" }.to_owned(),
            assumed(option),
            format!("{:.0}", 100.0 * option.unmodelled_share),
            option.section.name().to_owned(),
            option.steps.join("; "),
        ]);
    }
    table
}

/// The largest share of a step's change that is assumed.
fn assumed(option: &AdvisedOption) -> String {
    if option.assumed_share > 0.0 { format!("{:.0}", 100.0 * option.assumed_share) } else { "–".to_owned() }
}

fn responses(found: &[Sensitivity], has_goal: bool) -> output::Table {
    let mut header = vec!["class", "tenth_percent", "most_percent"];
    header.extend(has_goal.then_some("factor_for_target"));
    let mut table = output::Table::new(&header);
    for speed_up in found {
        let factor = speed_up.factor_for_target.map_or("–".to_owned(), |factor| format!("×{factor:.3}"));
        let mut row = vec![speed_up.class.clone(), percent(speed_up.gain_at_tenth), percent(speed_up.gain_at_most)];
        row.extend(has_goal.then_some(factor));
        table.row(row);
    }
    table
}

/// What rounds to nothing has no sign.
fn percent(share: f64) -> String {
    let hundredths = (1e4 * share).round() / 100.0;
    format!("{:.2}", if hundredths == 0.0 { 0.0 } else { hundredths })
}
