//! `overheads measured|mean|FILE`: what if the host took its mean time for each kind of call, or that of another machine?

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::overhead::{OverheadSpan, kind_of, ranks};
use crate::cost::{OverheadKind, Overheads, Prediction, Provenance, Statistic};
use crate::graph::NodeId;
use crate::intern::NameId;
use crate::scenario::context::Context;
use crate::scenario::draft::{AddedId, Draft, Node};
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::report::{Kept, count};

/// Lets each host overhead T1–T5 take a time from elsewhere [Lin 2022 §III-C].
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostOverheads {
    /// Where from.
    source: OverheadSource,
}

/// Where host overheads are from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OverheadSource {
    /// Each call its own, as traced.
    Measured,
    /// The mean over the calls of the same operator in this trace. Outliers are in no mean and keep their own time: they
    /// are few and long, so that the host's total stays.
    Mean,
    /// The database in this file, for work that other steps place as well.
    Database(String),
}

pub(super) const EDIT: Grammar = Grammar {
    name: "overheads",
    help: "host overheads T1 to T5 from this very call, from the operator's mean, or from a saved database",
    example: "overheads mean",
    forms: &[Form {
        arguments: &[Argument::new(
            "measured|mean|FILE",
            "`measured`, `mean`, or the file of a database",
            Kind::Overheads,
        )],
        build: |given| {
            let source = match given.get::<String>(0)? {
                name if name == "measured" => OverheadSource::Measured,
                name if name == "mean" => OverheadSource::Mean,
                file => OverheadSource::Database(file),
            };
            Some(Arc::new(HostOverheads { source }))
        },
    }],
    knobs: &[],
};

impl Transform for HostOverheads {
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        match &self.source {
            OverheadSource::Measured => restore(draft),
            OverheadSource::Mean => {
                let means = Arc::clone(draft.base().overheads().1);
                Setting::new(draft, &means, true).write("at the mean of its kind")
            }
            OverheadSource::Database(file) => match context.databases.read(file) {
                Err(reason) => StepReport::impossible(reason),
                Ok(database) => {
                    draft.set_overheads(Some(Arc::clone(&database)));
                    Setting::new(draft, &database, false).write("as in the database")
                }
            },
        }
    }
}

/// Lets every host task take its traced time again.
fn restore(draft: &mut Draft<'_>) -> StepReport {
    draft.set_overheads(None);
    let base = draft.base();
    let spans = base.overheads().0;
    let nodes = spans.iter().flat_map(|stretch| spans.nodes(stretch));
    let mut changed = 0;
    for &node in nodes {
        changed += usize::from(draft.price(node).duration != base.graph().tasks[node].duration);
        draft.unset_duration(node);
    }
    StepReport { changed, summary: "every host task as it was measured".to_owned(), ..StepReport::default() }
}

/// A draft whose host tasks are being set.
struct Setting<'d, 'b> {
    draft: &'d mut Draft<'b>,
    overheads: &'d Overheads,
    /// Whether the figures are means of this very trace.
    is_own: bool,
    known: FxHashMap<(OverheadKind, NameId), Option<(Prediction, bool)>>,
    /// Operators that the database does not have: how many calls, and their traced time.
    pooled: Kept<'b>,
    missing: Kept<'b>,
}

impl<'d, 'b> Setting<'d, 'b> {
    fn new(draft: &'d mut Draft<'b>, overheads: &'d Overheads, is_own: bool) -> Self {
        let known = FxHashMap::default();
        Self { draft, overheads, is_own, known, pooled: Kept::default(), missing: Kept::default() }
    }

    fn write(mut self, how: &str) -> StepReport {
        let (base, graph) = (self.draft.base(), self.draft.graph());
        let spans = base.overheads().0;
        let (mut changed, mut tasks, mut before, mut after) = (0, 0, DurNs::ZERO, DurNs::ZERO);
        let is_own = self.is_own;
        let takes_part = |stretch: &OverheadSpan| stretch.is_overhead && !(is_own && stretch.is_outlier);
        let ranks = if is_own { Vec::new() } else { ranks(graph, spans) };
        let mut nodes: Vec<NodeId> = Vec::new();
        for (at, stretch) in spans.iter().enumerate().filter(|(_, stretch)| takes_part(stretch)) {
            nodes.clear();
            nodes.extend(spans.nodes(stretch));
            let traced: DurNs = nodes.iter().map(|&node| graph.tasks[node].duration).sum();
            let Some((time, is_named)) = self.look_up(stretch) else { continue };
            let time = self.of_rank(stretch, ranks.get(at).copied(), time);
            if !is_named && self.is_left(&nodes) {
                self.pooled.count(graph.names.get(stretch.op), traced);
            }
            let set = self.share(&nodes, traced, time);
            changed += set.0;
            if nodes.first().is_some_and(|&node| self.draft.is_in_step(node.into())) {
                (tasks, before, after) = (tasks + set.0, before + set.1, after + set.2);
            }
        }
        let placed = if self.is_own { 0 } else { self.placed() };
        changed += placed;
        let summary = format!("{} {how}: {before} → {after} of host time", count(tasks + placed, "host task"));
        let mut report = StepReport { changed, summary, ..StepReport::default() };
        self.pooled.list_assumed(&mut report, "not in the database: the mean over its other operators");
        self.missing.list(&mut report, "the database has none of its kind: measured time kept");
        report
    }

    /// The time of a stretch, and whether it is that of the operator itself.
    fn look_up(&mut self, stretch: &OverheadSpan) -> Option<(Prediction, bool)> {
        let graph = self.draft.graph();
        let name = graph.names.get(stretch.op);
        let key = (stretch.kind, stretch.op);
        let (overheads, is_own) = (self.overheads, self.is_own);
        let found = *self.known.entry(key).or_insert_with(|| {
            let own = overheads.own(stretch.kind, name);
            let any = own.or_else(|| overheads.get(stretch.kind, name).filter(|_| !is_own));
            any.map(|statistic| (prediction(statistic, is_own), own.is_some()))
        });
        if found.is_none() && !self.is_own {
            let time = self.draft.base().overheads().0.time(stretch, graph);
            self.missing.count(name, time);
        }
        found
    }

    /// The database's time for a call of the `rank` that this one has among its like; its mean where how calls spread is not known.
    fn of_rank(&self, stretch: &OverheadSpan, rank: Option<f64>, mean: Prediction) -> Prediction {
        let name = self.draft.graph().names.get(stretch.op);
        let us = rank.and_then(|rank| self.overheads.spread(stretch.kind, name)?.at(rank));
        us.map_or(mean, |us| Prediction { duration: DurNs::from_us_f64(us), ..mean })
    }

    /// Whether any of these tasks is still there.
    fn is_left(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().any(|&node| !self.draft.is_removed(node))
    }

    /// Divides `time` among the tasks of a stretch as the traced time was divided; what was taken out has its share, too, which tasks that
    /// repeat it take.
    ///
    /// # Returns
    /// How many tasks that are left take another time, and what they took and take.
    fn share(&mut self, nodes: &[NodeId], traced: DurNs, time: Prediction) -> (usize, DurNs, DurNs) {
        let (mut reached, mut given) = (DurNs::ZERO, DurNs::ZERO);
        let mut set = (0, DurNs::ZERO, DurNs::ZERO);
        for (index, &node) in nodes.iter().enumerate() {
            let own = self.draft.graph().tasks[node].duration;
            reached += own;
            let is_last = index + 1 == nodes.len();
            let share = if traced.0 > 0 { reached.0 as f64 / traced.0 as f64 } else { 0.0 };
            let until = if is_last { time.duration } else { time.duration.scale(share) };
            let duration = until - given;
            given = until;
            self.draft.set_duration(node, Prediction { duration, ..time });
            if !self.draft.is_removed(node) {
                set = (set.0 + 1, set.1 + own, set.2 + duration);
            }
        }
        set
    }

    /// Sets the host tasks that earlier steps placed.
    fn placed(&mut self) -> usize {
        let mut changed = 0;
        for index in 0..self.draft.added().len() {
            let added = &self.draft.added()[index];
            let found = kind_of(added.kind).and_then(|kind| self.overheads.own(kind, &added.name));
            let Some(prediction) = found.map(|statistic| prediction(statistic, self.is_own)) else { continue };
            self.draft.set_price(Node::Added(AddedId(index as u32)), prediction);
            changed += 1;
        }
        changed
    }
}

/// A mean with its error: of this trace's the standard error, of another's the spread (all calls may miss alike).
fn prediction(statistic: Statistic, is_own: bool) -> Prediction {
    let Statistic { mean_us, std_us, count } = statistic;
    let spread = if mean_us > 0.0 { std_us / mean_us } else { 0.0 };
    let (provenance, model, error) = if is_own {
        (Provenance::Anchored, "mean overheads", spread / (count.max(1) as f64).sqrt())
    } else {
        (Provenance::Absolute, "overheads", spread)
    };
    let duration = DurNs::from_us_f64(mean_us);
    Prediction { duration, provenance, model, error: error as f32, extrapolated: false }
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse_step;

    #[test]
    fn a_source_is_measured_mean_or_a_file_with_its_spaces() {
        for line in ["overheads measured", "overheads mean", "overheads my host/over heads.json"] {
            assert_eq!(parse_step(line).unwrap().to_string(), line);
        }
        assert!(parse_step("overheads").unwrap_err().to_string().contains("`mean`"));
    }
}
