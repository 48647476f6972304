//! The critical path in groups, before and after the edits: they add up to the iteration.

use rustc_hash::FxHashMap;

use retime_core::analysis::critical_path::{CriticalPath, Segment, SegmentKind, explained};
use retime_core::analysis::operators::module_of;
use retime_core::graph::{NodeId, OperatorId, TaskKind};
use retime_core::intern::NameId;
use retime_core::units::DurNs;

use crate::tui::composition::{part_name, segment_paint};
use crate::tui::theme::Paint;
use crate::tui::timeline::{iteration_figures, kernel_name, telling_name};

use super::Sources;
use super::nested::Row;

/// What makes segments of the critical path one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathGrouping {
    /// The family of work, as in the ribbon.
    #[default]
    Family,
    /// None: in order of time.
    Order,
    /// The layer, or the part of training.
    Layer,
    /// What it is in detail: which overhead, which family, waiting for what.
    Cause,
}

impl PathGrouping {
    /// All of them, in the order a key goes through them.
    pub const ALL: [Self; 4] = [Self::Family, Self::Order, Self::Layer, Self::Cause];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Family => "family",
            Self::Order => "time",
            Self::Layer => "layer",
            Self::Cause => "cause",
        }
    }

    /// The next one, around the end.
    pub fn next(self) -> Self {
        Self::ALL[(Self::ALL.iter().position(|&known| known == self).unwrap_or(0) + 1) % Self::ALL.len()]
    }
}

/// Time of the iteration that is not on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// What a step which repeats has less, or more, than the path of a single one.
    Shared,
    /// By how much the iteration is longer than its path.
    Rest,
}

impl Outside {
    fn label(self) -> &'static str {
        match self {
            Self::Shared => "shared with neighbouring steps",
            Self::Rest => "rest of the iteration",
        }
    }

    /// How it comes about.
    pub fn explained(self) -> &'static str {
        match self {
            Self::Shared => {
                "a step that is repeated begins before the one before it has ended, or waits for it: the iteration is \
                 then not as long as the path of a single one"
            }
            Self::Rest => {
                "by how much the iteration is longer than its path, which begins with the first task of the step; before the \
                 edits with what the measured iteration is longer than its replay"
            }
        }
    }
}

/// Segments of the path that have something in common.
#[derive(Clone, Debug, PartialEq)]
pub struct PathGroup {
    /// What.
    pub label: String,
    /// What names the row.
    path: String,
    /// How far it is indented.
    pub depth: usize,
    end: usize,
    /// Whether it is all of the path, which its inner rows tell more of.
    is_alone: bool,
    /// Their time on the path before the edits.
    pub before: DurNs,
    /// Their time on the path after them.
    pub after: DurNs,
    /// How many there are: after the edits, where any are left.
    pub count: usize,
    /// The longest of them, in the edited graph where it is one of the edited path; `None` for time outside the path.
    pub example: Option<NodeId>,
    /// How long that takes.
    pub longest: DurNs,
    /// What it is, where it is outside the path.
    pub outside: Option<Outside>,
    /// How it is painted.
    pub paint: Paint,
}

impl PathGroup {
    fn new(label: String, path: String, depth: usize, paint: Paint) -> Self {
        let none = DurNs::ZERO;
        Self {
            label,
            path,
            depth,
            end: 0,
            is_alone: false,
            before: none,
            after: none,
            count: 0,
            example: None,
            longest: none,
            outside: None,
            paint,
        }
    }

    /// What the edits changed.
    pub fn change(&self) -> DurNs {
        self.after - self.before
    }

    /// How long one of them takes after the edits; `None` where none is left.
    pub fn average(&self) -> Option<DurNs> {
        (self.count > 0).then(|| DurNs(self.after.0 / self.count as i64))
    }

    fn add(&mut self, segment: &Segment, is_after: bool) {
        if is_after {
            self.after += segment.duration;
            self.count += 1;
        } else {
            self.before += segment.duration;
        }
        // What is left counts before what the edits took off the path.
        if segment.duration > self.longest || (is_after && self.count == 1) {
            (self.longest, self.example) = (segment.duration, Some(segment.node));
        }
    }
}

impl Row for PathGroup {
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
        self.is_alone
    }
}

/// What segments of one row have in common.
type Key = (SegmentKind, Paint, NameId, Option<OperatorId>);

/// The groups of the path of `sources`, each with its inner rows behind it.
///
/// # Complexity
/// O(length of the path + rows · log rows).
pub fn rows(sources: &Sources, is_seen: &dyn Fn(NodeId) -> bool) -> Vec<PathGroup> {
    let model = &sources.view_model;
    let mut grown = Grown { sources, groups: Vec::new(), of_label: FxHashMap::default(), of_key: FxHashMap::default() };
    for (path, is_after) in [(&*model.traced.path, false), (&model.after, true)] {
        for segment in path.segments.iter().filter(|segment| is_seen(segment.node)) {
            grown.add(segment, is_after);
        }
    }
    let mut groups = grown.groups;
    if sources.filter.is_none() {
        groups.extend(beside(sources).map(|group| (group, Vec::new())));
    }
    let by_change = sources.arrangement.path_by_change;
    let rank = |group: &PathGroup| {
        let (before, after) = (group.before.abs(), group.after.abs());
        if by_change { (group.change().abs(), after) } else { (after, before) }
    };
    let order = |a: &PathGroup, b: &PathGroup| rank(b).cmp(&rank(a)).then_with(|| a.label.cmp(&b.label));
    groups.sort_by(|a, b| order(&a.0, &b.0));
    let mut rows = Vec::new();
    let are_several = groups.iter().filter(|(group, _)| group.example.is_some()).count() > 1;
    for (mut group, mut inner) in groups {
        group.is_alone = !are_several;
        if matches!(inner.as_slice(), [only] if only.label == group.label) {
            inner.clear();
        }
        inner.sort_by(&order);
        group.end = rows.len() + 1 + inner.len();
        rows.push(group);
        for mut row in inner {
            row.end = rows.len() + 1;
            rows.push(row);
        }
    }
    rows
}

/// What of the iterations lies outside the paths: a step that repeats may be shorter than the path of a single one, and is
/// then begun before the step before it has ended; else by how much the replay is off.
fn beside(sources: &Sources) -> Option<PathGroup> {
    let model = &sources.view_model;
    let (before, after) = iteration_figures(&sources.loaded, &sources.outcome);
    let rest = |whole: DurNs, path: &CriticalPath| whole - path.length;
    let repeats = [&sources.loaded.replay.summary, &sources.outcome.summary].iter().any(|it| it.both_named().is_some());
    let outside = if repeats { Outside::Shared } else { Outside::Rest };
    let label = outside.label().to_owned();
    let mut group = PathGroup::new(label.clone(), label, 0, Paint::Call);
    group.outside = Some(outside);
    (group.before, group.after) = (rest(before, &model.traced.path), rest(after, &model.after));
    (group.before.0 != 0 || group.after.0 != 0).then_some(group)
}

struct Grown<'a> {
    sources: &'a Sources,
    groups: Vec<(PathGroup, Vec<PathGroup>)>,
    of_label: FxHashMap<String, usize>,
    of_key: FxHashMap<Key, (usize, usize)>,
}

impl Grown<'_> {
    fn add(&mut self, segment: &Segment, is_after: bool) {
        let graph = self.sources.view_model.graph(&self.sources.loaded);
        let operator = graph.tasks[segment.node].operator;
        let paint = segment_paint(&self.sources.outcome.resolved, segment);
        let key = (segment.kind, paint, segment.name, operator);
        let (outer, inner) = match self.of_key.get(&key) {
            Some(&known) => known,
            None => self.place(segment, key),
        };
        let (group, rows) = &mut self.groups[outer];
        group.add(segment, is_after);
        rows[inner].add(segment, is_after);
    }

    fn place(&mut self, segment: &Segment, key: Key) -> (usize, usize) {
        let (label, inner) = self.labels(segment, key.1);
        let outer = *self.of_label.entry(label.clone()).or_insert_with(|| {
            let path = format!("path {label}");
            self.groups.push((PathGroup::new(label, path, 0, key.1), Vec::new()));
            self.groups.len() - 1
        });
        let (group, rows) = &mut self.groups[outer];
        let at = rows.iter().position(|row| row.label == inner).unwrap_or_else(|| {
            let path = format!("{}\u{1f}{inner}", group.path);
            rows.push(PathGroup::new(inner, path, 1, key.1));
            rows.len() - 1
        });
        self.of_key.insert(key, (outer, at));
        (outer, at)
    }

    /// What the row of a segment is called, and the one inside it.
    fn labels(&self, segment: &Segment, paint: Paint) -> (String, String) {
        let graph = self.sources.view_model.graph(&self.sources.loaded);
        let task = &graph.tasks[segment.node];
        let cause = || explained(segment.kind.name()).to_owned();
        let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
        let name = match (task.kind, operator) {
            (TaskKind::Host(_), Some(operator)) => telling_name(graph.names.get(operator.name)),
            _ => kernel_name(graph.names.get(segment.name)),
        };
        let name = if name.is_empty() { "outside operators".to_owned() } else { name.into_owned() };
        let is_device = task.kind.is_device() && !matches!(segment.kind, SegmentKind::Wait(_));
        match self.sources.arrangement.path {
            PathGrouping::Layer => (module_of(graph, task).to_owned(), part_name(paint).to_owned()),
            PathGrouping::Cause => (cause(), name),
            PathGrouping::Family | PathGrouping::Order if is_device => (part_name(paint).to_owned(), name),
            PathGrouping::Family | PathGrouping::Order => (part_name(paint).to_owned(), cause()),
        }
    }
}
