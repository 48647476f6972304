//! The analyses in print, and the overview of a few of them.

use std::io::{self, Write};

use crate::headless::output::{self, Table};
use crate::session::{LayerStudy, StudyTable, study_title};
use retime_core::analysis::roofline::Limit;
use retime_core::units::{Bytes, DurNs, Percent};

/// Numbers of the kernels by name and of the models side by side among the analyses.
const BY_NAME: u8 = 10;
const SIDE_BY_SIDE: u8 = 15;

/// The batch sizes, where models or levels of profiling stand side by side, stages, and the longest tables by time.
pub(super) fn overview(answer: &LayerStudy, top: usize, out: &mut dyn Write) -> io::Result<()> {
    for row in &answer.batch_sizes {
        let throughput = row.throughput.map_or(String::new(), |rate| format!(", {} samples/s", output::rate(rate)));
        let runs = if row.runs == 1 { "run" } else { "runs, trimmed mean" };
        let several =
            row.samples.filter(|samples| row.batch.is_some_and(|batch| (*samples - batch as f64).abs() >= 1.0));
        let of = several.map_or(String::new(), |samples| format!(" for {samples} samples"));
        writeln!(out, "batch {}: {}{of} ({} {runs}){throughput}", size(row.batch), row.latency_ns, row.runs)?;
    }
    if let Some(best) = answer.optimal_batch {
        writeln!(out, "optimal batch {best}; all below is of it")?;
    }
    for row in &answer.profiling_levels {
        let (Some(above), Some(more)) = (&row.above, row.overhead_ns) else { continue };
        writeln!(out, "profiling {} ({} runs) takes {more} more than {above}", row.level, row.runs)?;
    }
    for sum in &answer.model {
        let (gflop, traffic) = (sum.load.flop / 1e9, Bytes(sum.load.bytes as u64));
        let is_mostly_known = answer.unknown_work_ns * 2 < answer.kernels_ns;
        let bound = sum.bound.filter(|_| is_mostly_known).map_or("unknown", Limit::name);
        writeln!(out, "model on {}: {gflop:.3} GFLOP, {traffic}, bound by {bound}", answer.device)?;
    }
    left_out(answer, out)?;
    for stage in &answer.stages {
        let [begin, middle, end] = [stage.begin, stage.middle, stage.end].map(Percent);
        writeln!(out, "{}: begin {begin:.0}, middle {middle:.0}, end {end:.0}: {}", stage.metric, stage.dominant)?;
    }
    if answer.profiles.len() > 1 {
        writeln!(out, "\nside by side; other runs are in no mean of the first")?;
        output::text(&answer.analysis(SIDE_BY_SIDE).into(), &mut *out)?;
    }
    writeln!(out, "\nslowest layers of {}", answer.layers.len())?;
    output::text(&Table::from(answer.slowest()).first(top), &mut *out)?;
    writeln!(out, "\nlayer types")?;
    output::text(&Table::from(answer.types()).first(top), &mut *out)?;
    writeln!(out, "\nkernels by name")?;
    output::text(&Table::from(answer.analysis(BY_NAME)).first(top), out)
}

/// What of the kernels' time is in no layer, and what of it counts without work.
fn left_out(answer: &LayerStudy, out: &mut dyn Write) -> io::Result<()> {
    let all = answer.kernels_ns;
    let share = |part: DurNs| Percent(part.0 as f64 / all.0.max(1) as f64);
    let parts = [
        (answer.outside_layers_ns, "in no layer: it has no recorded operator"),
        (answer.unknown_work_ns, "of unknown work: it counts as none, here and below"),
    ];
    for (part, why) in parts.into_iter().filter(|(part, _)| *part > DurNs::ZERO) {
        writeln!(out, "{part} of {all} of kernel time ({:.1}) is {why}", share(part))?;
    }
    Ok(())
}

/// The tables of the `chosen` analyses.
pub(super) fn analyses(answer: &LayerStudy, chosen: &[u8], top: usize, out: &mut dyn Write) -> io::Result<()> {
    for (place, &number) in chosen.iter().enumerate() {
        let gap = if place == 0 { "" } else { "\n" };
        let (title, table) = (study_title(number), Table::from(answer.analysis(number)));
        let left = table.row_count().saturating_sub(top);
        writeln!(out, "{gap}{number} {title}, batch {} on {}", size(answer.batch), answer.device)?;
        output::text(&table.first(top), &mut *out)?;
        if left > 0 {
            writeln!(out, "{left} more: --top {}", table.row_count())?;
        }
    }
    Ok(())
}

fn size(batch: Option<u64>) -> String {
    batch.map_or("unknown".to_owned(), |batch| batch.to_string())
}

impl From<StudyTable> for Table {
    fn from(study: StudyTable) -> Self {
        let mut table = Self::new(&study.head);
        study.rows.into_iter().for_each(|row| table.row(row));
        table
    }
}
