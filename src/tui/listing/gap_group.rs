//! The gaps of main streams by cause: what each costs.

use std::collections::BTreeMap;

use retime_core::analysis::gaps::Cause;
use retime_core::graph::{LaneId, NodeId};
use retime_core::units::DurNs;

use super::Sources;
use super::nested::Row;

/// Gaps of one cause, or one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct GapGroup {
    /// The cause in words.
    pub label: &'static str,
    /// What names the row.
    path: String,
    /// How far it is indented.
    pub depth: usize,
    end: usize,
    /// How long the streams are idle so.
    pub idle: DurNs,
    /// The gaps, by their places among all: none for those too short to be listed.
    pub gaps: Vec<usize>,
}

impl Row for GapGroup {
    fn path(&self) -> &str {
        &self.path
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn end(&self) -> usize {
        self.end
    }

    fn is_open(&self) -> bool {
        false
    }
}

/// The groups, those that cost most first, each with its gaps behind it, longest first. What is too short to be
/// listed comes last.
///
/// # Complexity
/// O(gaps · log gaps).
pub fn rows(sources: &Sources, is_seen: &dyn Fn(NodeId) -> bool) -> Vec<GapGroup> {
    let survey = &sources.view_model.idle;
    let main: Vec<LaneId> = survey.main_streams().map(|stream| stream.lane).collect();
    let mut of_cause: BTreeMap<(bool, &'static str), Vec<usize>> = BTreeMap::new();
    let mut listed = DurNs::ZERO;
    for (at, gap) in survey.gaps.iter().enumerate().filter(|(_, gap)| main.contains(&gap.lane)) {
        if gap.next.map_or(sources.filter.is_none(), is_seen) {
            listed += gap.duration;
            of_cause.entry((gap.cause == Cause::NothingLeft, words(gap.cause))).or_default().push(at);
        }
    }
    let idle = |gaps: &[usize]| gaps.iter().map(|&at| survey.gaps[at].duration).sum::<DurNs>();
    let mut groups: Vec<_> = of_cause.into_iter().map(|(key, gaps)| (key, idle(&gaps), gaps)).collect();
    groups.sort_by_key(|&((is_end, label), idle, _)| (std::cmp::Reverse(idle), is_end, label));
    let mut rows = Vec::new();
    for ((_, label), idle, gaps) in groups {
        let path = format!("gaps {label}");
        let end = rows.len() + 1 + gaps.len();
        rows.push(GapGroup { label, path: path.clone(), depth: 0, end, idle, gaps: gaps.clone() });
        for at in gaps {
            let (end, path) = (rows.len() + 1, format!("{path}\u{1f}{at}"));
            rows.push(GapGroup { label, path, depth: 1, end, idle: survey.gaps[at].duration, gaps: vec![at] });
        }
    }
    let short = survey.main_streams().map(|stream| stream.idle).sum::<DurNs>() - listed;
    if sources.filter.is_none() && short > DurNs::ZERO {
        let label = "shorter ones, each under 0.1 %";
        let path = format!("gaps {label}");
        rows.push(GapGroup { label, path, depth: 0, end: rows.len() + 1, idle: short, gaps: Vec::new() });
    }
    rows
}

/// A cause in the field's words.
fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::LaunchBound { .. } => "launch overhead: the host is late",
        Cause::Sync { .. } => "the host waited for the device",
        Cause::EventWait { .. } => "waits for another stream",
        Cause::Collective { .. } => "exposed communication",
        Cause::DataLoading { .. } => "data loading",
        Cause::LaunchQueue { .. } => "the launch queue is full",
        Cause::Contention { .. } => "other work has the device",
        Cause::BeforeWindow => "begins before what was recorded",
        Cause::Latency(_) => "launch latency, time between kernels",
        Cause::NothingRecorded { .. } => "the host runs no recorded operator",
        Cause::NothingLeft => "no work left",
        Cause::NotExamined => "not looked into: too many gaps",
    }
}
