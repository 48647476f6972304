//! `simulate`: re-time the iteration with edits applied.

use std::io::{self, Write};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Iteration, SimulateArgs};
use crate::session::{Communication, DeviceTime, Loaded, MemorySummary, Outcome, Published, StepOutcome, Summary};
use retime_core::analysis::replay::ReplayStatus;
use retime_core::engine::AnotherRun;
use retime_core::units::{DurNs, Percent};

use super::opened::Opened;
use super::{input, output, published, ranks};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    steps: &'a [StepOutcome],
    /// Where another recording of the same program is expected.
    another_run: AnotherRun,
    /// Samples per second of the job, where the batch size is known.
    throughput: Option<f64>,
    /// The same of one rank.
    throughput_per_rank: Option<f64>,
    /// Where host overheads are from: `measured`, `mean`, or a file.
    overheads: String,
    /// Times that were predictions to begin with.
    predicted: Option<&'a str>,
    /// What a paper's algorithm says of the same iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<&'a Published>,
    #[serde(flatten)]
    communication: &'a Communication,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or standard output cannot be written.
pub fn run(args: &SimulateArgs, iteration: Iteration) -> Result<()> {
    let (args, algorithm) = (&args.common, args.algorithm);
    let opened = Opened::of(args, iteration)?;
    let published = algorithm.map(|algorithm| published::published(algorithm, &opened)).transpose()?;
    let communication = Communication::on(&opened.engine, &opened.loaded, &opened.outcome, &opened.edited);
    let Opened { engine, loaded, outcome, .. } = opened;
    let Some(outcome) = engine.with_gains(&loaded, outcome, &[], &|| false) else { return Ok(()) };
    let (summary, steps, overheads) = (&outcome.summary, outcome.steps.as_slice(), outcome.scenario.overheads());
    let (predicted, published) = (loaded.predicted(), published.as_ref());
    let (throughput, throughput_per_rank) = throughput(summary).unzip();
    let answer = Answer {
        summary,
        steps,
        another_run: summary.another_run(),
        throughput,
        throughput_per_rank,
        overheads,
        predicted,
        published,
        communication: &communication,
    };
    let json = input::Envelope::new(&loaded, answer);
    let text = |out: &mut dyn Write| {
        describe(&loaded, &outcome, out)?;
        published.map_or(Ok(()), |published| published::describe(published, out))?;
        ranks::describe(&communication, out)
    };
    output::write(&args.input.output, &json, text, || table(&outcome))?;
    Ok(())
}

/// Shares of the iteration below this are not worth a line.
const LEAST_SHARE: f64 = 0.005;
/// Share of the work left as it was from which a step's shares are added up.
const NOTABLE: f64 = 0.05;

/// What the replay takes, and what of it is not explained.
fn replay(loaded: &Loaded, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let base = &loaded.replay.summary;
    if let Some(turns) = input::turns(loaded) {
        writeln!(out, "  turns       {turns}")?;
    }
    let error = summary.replay_error.map_or_else(|| "–".to_owned(), |error| format!("{:+.2}", Percent(error)));
    match summary.replay_status {
        ReplayStatus::Pass => writeln!(out, "  replayed    {} ({error})", summary.base_simulated_ns)?,
        ReplayStatus::Pinned | ReplayStatus::Fail => {
            writeln!(out, "  replayed    {} ({error}): the replay does not pass", summary.base_simulated_ns)?;
        }
        ReplayStatus::Predicted => {
            let band = base.error_band;
            writeln!(out, "  may be      {} to {}: nothing was measured to hold it to", band.low_ns, band.high_ns)?;
        }
    }
    let kept = [
        (summary.unexplained_share, "of it no rule explains"),
        (summary.anchored_share, "is work from before the recording: its times are kept"),
        (summary.unrecorded_share, "is device work that was not recorded: taken to change as kernels do"),
    ];
    for (share, what) in kept.into_iter().filter(|&(share, _)| share >= LEAST_SHARE) {
        writeln!(out, "              {:.0} {what}", Percent(share))?;
    }
    Ok(())
}

/// Samples per second of the job and of one rank, where the batch size is known.
fn throughput(summary: &Summary) -> Option<(f64, f64)> {
    let rank = summary.known_samples().filter(|_| summary.steady_ns > DurNs::ZERO)?;
    Some((summary.steady_ns.rate_of(summary.job_samples()), summary.steady_ns.rate_of(rank)))
}

fn throughput_line(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let several = summary.several_batches().map_or(String::new(), |text| format!(": {text}"));
    match throughput(summary) {
        Some((job, rank)) if summary.replicas > 1 => {
            let all = summary.replicas;
            let [job, rank] = [job, rank].map(output::rate);
            writeln!(out, "  throughput  {job} samples/s of all {all} ranks, {rank} per rank{several}")
        }
        Some((_, rank)) => writeln!(out, "  throughput  {} samples/s{several}", output::rate(rank)),
        None if summary.steady_ns <= DurNs::ZERO => {
            writeln!(out, "  throughput  none: nothing is left that takes time")
        }
        None => Ok(()),
    }
}

fn describe(loaded: &Loaded, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let summary = &outcome.summary;
    writeln!(out, "{}", loaded.title)?;
    match loaded.predicted() {
        Some(how) => writeln!(out, "  predicted   {} by {how}, not measured", summary.measured_ns)?,
        None => writeln!(out, "  measured    {}", summary.measured_ns)?,
    }
    replay(loaded, summary, out)?;
    writeln!(out, "  compared    {}: {}", summary.base_steady_ns, summary.basis_sentence())?;
    if !outcome.steps.is_empty() {
        let change = summary.steady_ns.0 as f64 / summary.base_steady_ns.0.max(1) as f64 - 1.0;
        let band = summary.steady_band;
        writeln!(
            out,
            "  simulated   {} ({:+}), {} to {}",
            summary.steady_ns,
            Percent(change),
            band.low_ns,
            band.high_ns
        )?;
        if let Some(sentence) = summary.another_run().sentence() {
            writeln!(out, "  another run {sentence}")?;
        }
    }
    if let Some((name, before, after)) = summary.both_named() {
        let after = if outcome.steps.is_empty() { String::new() } else { format!(" → {after}") };
        writeln!(out, "  {name:<11} {before}{after}")?;
    }
    throughput_line(summary, out)?;
    if let Some(cut) = &summary.cut {
        writeln!(out, "  but         {}", cut.sentence())?;
    }
    if outcome.scenario.overheads() != "measured" {
        writeln!(out, "  overheads   {}", outcome.scenario.overheads())?;
    }
    let percent = |share: f64| format!("{:.0}", Percent(share));
    if summary.extrapolated_share >= LEAST_SHARE {
        let share = percent(summary.extrapolated_share);
        writeln!(
            out,
            "  beyond fits in {share} of the iteration tasks run that are predicted beyond what the models were fitted on"
        )?;
    }
    if summary.unmodelled_share >= LEAST_SHARE {
        let share = percent(summary.unmodelled_share);
        let how = match (summary.device_time.not_modelled_ns, summary.device_time.by_roofs_ns) {
            (_, DurNs::ZERO) => "it keeps its time",
            (DurNs::ZERO, _) => "it follows the roofs of both devices",
            _ => "it keeps its time, or follows the roofs of both devices",
        };
        writeln!(out, "  no model    for {share} of the work: {how}")?;
    }
    if let Some(account) = device_time(&summary.device_time).filter(|_| !outcome.steps.is_empty()) {
        writeln!(out, "  device time {account}")?;
    }
    // Where the step as it repeats is another one than the recorded window, it is busy for another share of the time.
    let window = Percent(summary.gpu_busy);
    let of = summary
        .window_note()
        .map_or(String::new(), |_| format!(" ({window:.0} of the recorded {})", summary.simulated_ns));
    let whose = if summary.ranks.len() > 1 { " on the busiest stream of any rank" } else { "" };
    let (busy, alone) = (Percent(summary.steady_gpu_busy), summary.kernel_only_ns);
    writeln!(out, "  GPU busy    {busy:.0}{of}, kernels alone {alone}{whose}")?;
    if let Some(bytes) = summary.memory_bytes {
        writeln!(out, "  memory      {bytes}{}", summary.verdict())?;
        if let Some(memory) = &summary.memory {
            describe_memory(memory, out)?;
        }
    } else {
        writeln!(out, "  memory      not known: neither the allocator nor sizes of most tensors were recorded")?;
    }
    if let Some(straggler) = summary.straggler {
        writeln!(out, "  straggler   rank {}, {} late", straggler.rank, straggler.late_ns)?;
    }
    describe_steps(outcome, out)
}

fn describe_steps(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    for (number, step) in outcome.steps.iter().enumerate() {
        writeln!(out, "  {}. {}", number + 1, step.transform)?;
        if !step.summary.is_empty() {
            writeln!(out, "     {}", step.summary)?;
        }
        writeln!(out, "     alone {}, on top of the steps before {}", signed(step.alone_ns), signed(step.marginal_ns))?;
        if let Some(assumed) = step.assumed() {
            writeln!(out, "     {assumed}; the band reaches back by it")?;
        }
        for told in &step.effects {
            writeln!(out, "     {}", told.line())?;
        }
        if step.unhandled_share >= NOTABLE {
            let (time, share) = (step.unhandled_ns, Percent(step.unhandled_share));
            writeln!(out, "     not modelled in all: {time}, {share:.0} of the work")?;
        }
    }
    Ok(())
}

/// What edits do with the device's time, in a line; `None` where none was used.
fn device_time(time: &DeviceTime) -> Option<String> {
    if time.base_ns == DurNs::ZERO && time.added_ns == DurNs::ZERO {
        return None;
    }
    let change = || match time.by_roofs_ns {
        DurNs::ZERO => format!("{} changed to {}", time.changed_ns, time.changed_to_ns),
        by_roofs => {
            format!("{} changed to {}, of which {by_roofs} not modelled", time.changed_ns, time.changed_to_ns)
        }
    };
    let kept = || match time.not_modelled_ns {
        DurNs::ZERO => format!("{} kept", time.kept_ns),
        not_modelled => format!("{} kept, of which {not_modelled} not modelled", time.kept_ns),
    };
    let parts = [
        (time.changed_ns, change()),
        (time.kept_ns, kept()),
        (time.removed_ns, format!("{} taken out", time.removed_ns)),
        (time.added_ns, format!("{} added", time.added_ns)),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(time, _)| *time > DurNs::ZERO).map(|(_, part)| part).collect();
    Some(format!("of {}: {}", time.base_ns, parts.join("; ")))
}

fn describe_memory(memory: &MemorySummary, out: &mut dyn Write) -> io::Result<()> {
    let kinds = memory.kinds.each().map(|(name, bytes)| format!("{name} {bytes}")).join(", ");
    let rank = if memory.ranks.len() > 1 { format!(" of rank {}", memory.rank) } else { String::new() };
    writeln!(out, "     at its peak{rank}, {} into the iteration: {kinds}", memory.peak_at_ns)?;
    writeln!(out, "     by {}", memory.source.described())?;
    if let Some(besides) = memory.besides.described() {
        writeln!(out, "     besides: {besides}")?;
    }
    memory.unknown.iter().try_for_each(|what| writeln!(out, "     not in it: {what}"))
}

fn signed(change: Option<DurNs>) -> String {
    change.map_or("–".to_owned(), |change| if change.0 > 0 { format!("+{change}") } else { change.to_string() })
}

fn table(outcome: &Outcome) -> output::Table {
    let summary = &outcome.summary;
    let mut table = output::Table::new(&[
        "measured_ns",
        "base_simulated_ns",
        "simulated_ns",
        "base_steady_ns",
        "steady_ns",
        "low_ns",
        "high_ns",
        "gpu_busy",
    ]);
    table.row([
        summary.measured_ns.0.to_string(),
        summary.base_simulated_ns.0.to_string(),
        summary.simulated_ns.0.to_string(),
        summary.base_steady_ns.0.to_string(),
        summary.steady_ns.0.to_string(),
        summary.steady_band.low_ns.0.to_string(),
        summary.steady_band.high_ns.0.to_string(),
        format!("{:.4}", summary.gpu_busy),
    ]);
    table
}
