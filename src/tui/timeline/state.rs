//! What the user did to the timeline: the part shown, the selection, folded, hidden and pinned lanes, marks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use retime_core::graph::{ExecutionGraph, LaneKind, Rank};
use retime_core::intern::NameId;
use retime_core::units::TimeNs;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::tui::theme::Paint;

use super::density::DensityIndex;
use super::item::Item;
use super::rows::{Fold, Side, fold_of};
use super::scene::Scene;
use super::span::Span;

/// How much of a lane is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expansion {
    /// Nested rows as far as there is room.
    #[default]
    Auto,
    /// All nested rows.
    Expanded,
    /// Measured and simulated in one row.
    Collapsed,
}

/// The timeline's own state.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The part of time shown.
    pub span: Span,
    /// All there is to show.
    pub bounds: Span,
    /// What is selected.
    pub selected: Option<Item>,
    /// The side on which the selection was made.
    pub side: Side,
    /// The lane of the cursor, by index in the graph.
    pub lane: usize,
    /// The depth of the cursor within its lane.
    pub depth: usize,
    /// The time of the cursor.
    pub cursor: f64,
    /// Whether the cursor was put where its lane does nothing.
    pub is_at_idle: bool,
    /// First row shown.
    pub scroll: usize,
    /// Lanes in order.
    pub order: Vec<usize>,
    /// How lanes are folded where not as a matter of course.
    pub expansions: BTreeMap<usize, Expansion>,
    /// Expansion of all other lanes.
    pub default_expansion: Expansion,
    /// What is not folded, or unfolded, as a matter of course.
    pub toggled: BTreeSet<Fold>,
    /// Hidden lanes.
    pub hidden: BTreeSet<usize>,
    /// Lanes that stay at the top.
    pub pinned: BTreeSet<usize>,
    /// Marked instants.
    pub marks: Vec<TimeNs>,
    /// What some of them are called.
    pub mark_names: BTreeMap<TimeNs, String>,
    /// The family that is looked at: bars of others step back.
    pub family: Option<Paint>,
    /// Families that are not drawn.
    pub hidden_families: BTreeSet<Paint>,
    /// What was searched for, lower case.
    pub search: String,
    /// The items searched, where the text is no part of a name.
    pub hits: Option<Arc<[Item]>>,
    /// The names searched, where it is.
    pub hit_names: Option<Arc<FxHashSet<NameId>>>,
}

/// Whether a lane is a stream: streams come after threads.
fn is_stream(graph: &ExecutionGraph, lane: usize) -> bool {
    matches!(graph.lanes[lane].kind, LaneKind::Stream { .. })
}

/// When the first operator of each lane starts; streams keep their order.
fn first_starts(graph: &ExecutionGraph) -> Vec<TimeNs> {
    let mut first = vec![TimeNs(i64::MAX); graph.lanes.len()];
    for operator in &graph.operators {
        let lane = &mut first[operator.lane.0 as usize];
        *lane = (*lane).min(operator.start);
    }
    first
}

/// The streams that work less than a hundredth of what the busiest of their rank does: they come after the others.
fn slight_streams(graph: &ExecutionGraph, measured: &DensityIndex) -> Vec<bool> {
    const SLIGHT: i64 = 100;
    let mut busy: Vec<i64> = vec![0; graph.lanes.len()];
    let mut busiest: FxHashMap<Rank, i64> = FxHashMap::default();
    for lane in (0..graph.lanes.len()).filter(|&lane| is_stream(graph, lane)) {
        let row = measured.lanes.get(lane).and_then(|lane| lane.rows.first());
        busy[lane] = row.map_or(0, |row| row.busy(measured.period.clone()).0);
        let most = busiest.entry(graph.lanes[lane].rank).or_default();
        *most = busy[lane].max(*most);
    }
    let is_slight = |lane: usize| {
        busy[lane].saturating_mul(SLIGHT) < busiest.get(&graph.lanes[lane].rank).copied().unwrap_or_default()
    };
    (0..graph.lanes.len()).map(|lane| is_stream(graph, lane) && is_slight(lane)).collect()
}

impl Timeline {
    /// Shows the chosen iteration of `graph`.
    pub fn new(graph: &ExecutionGraph, densities: [&DensityIndex; 2]) -> Self {
        let mut order: Vec<usize> = (0..graph.lanes.len()).collect();
        let (first, slight) = (first_starts(graph), slight_streams(graph, densities[0]));
        order.sort_by_key(|&lane| (graph.lanes[lane].rank, !is_stream(graph, lane), slight[lane], first[lane], lane));
        Self {
            span: Self::iteration(densities),
            bounds: Self::all(densities),
            selected: None,
            side: Side::Measured,
            lane: order.first().copied().unwrap_or(0),
            depth: 0,
            cursor: densities[0].period.start.0 as f64,
            is_at_idle: false,
            scroll: 0,
            order,
            expansions: BTreeMap::new(),
            default_expansion: Expansion::Auto,
            toggled: BTreeSet::new(),
            hidden: BTreeSet::new(),
            pinned: BTreeSet::new(),
            marks: Vec::new(),
            mark_names: BTreeMap::new(),
            family: None,
            hidden_families: BTreeSet::new(),
            search: String::new(),
            hits: None,
            hit_names: None,
        }
    }

    /// The iteration, measured and simulated, with room for the label of its end.
    pub fn iteration([measured, simulated]: [&DensityIndex; 2]) -> Span {
        const BEFORE: f64 = 0.01;
        const BEHIND: f64 = 0.16;
        let (start, end) = (measured.period.start, measured.period.end.max(simulated.period.end));
        let length = end.since(start).0 as f64;
        let whole = Span::new(start, end);
        Span { from: whole.from - length * BEFORE, to: whole.to + length * BEHIND }
    }

    /// All that was recorded or simulated.
    fn all(densities: [&DensityIndex; 2]) -> Span {
        let start = densities.map(|density| density.start).into_iter().min().unwrap_or_default();
        let end = densities.map(|density| density.end).into_iter().max().unwrap_or_default();
        let (all, shown) = (Span::new(start, end).with_margin(), Self::iteration(densities));
        Span { from: all.from.min(shown.from), to: all.to.max(shown.to) }
    }

    /// Whether what belongs to `fold` is one row: of the threads where a device works, of a rank where there are many.
    pub fn is_folded(&self, scene: Scene<'_>, fold: Fold) -> bool {
        Self::is_usually_folded(scene, fold) != self.toggled.contains(&fold)
    }

    fn is_usually_folded(scene: Scene<'_>, fold: Fold) -> bool {
        const FEW_RANKS: usize = 2;
        match fold {
            Fold::Hosts(_) => (0..scene.graph.lanes.len()).any(|lane| scene.is_stream(lane)),
            Fold::Rank(_) => scene.graph.ranks.len() > FEW_RANKS,
        }
    }

    /// What an unfolded lane can be folded into again: its rank's threads, else its rank.
    pub fn folds_into(&self, scene: Scene<'_>, lane: usize) -> Option<Fold> {
        let place = scene.graph.place_of(scene.lane(lane)?.rank)?;
        let hosts = Some(Fold::Hosts(place)).filter(|_| !scene.is_stream(lane));
        let mut folds = hosts.into_iter().chain([Fold::Rank(place)]);
        folds.find(|&fold| Self::is_usually_folded(scene, fold) && !self.is_folded(scene, fold))
    }

    /// Whether a lane has rows of its own.
    pub fn is_unfolded(&self, scene: Scene<'_>, lane: usize) -> bool {
        fold_of(self, scene, lane).is_none()
    }

    /// Folds what is unfolded, and the other way round.
    pub fn toggle_fold(&mut self, fold: Fold) {
        if !self.toggled.remove(&fold) {
            self.toggled.insert(fold);
        }
    }

    /// How `lane` is folded.
    pub fn expansion_of(&self, lane: usize) -> Expansion {
        self.expansions.get(&lane).copied().unwrap_or(self.default_expansion)
    }

    /// Goes from the densities shown before to others: who saw the whole iteration sees the whole of the other.
    pub fn follow(&mut self, before: [&DensityIndex; 2], now: [&DensityIndex; 2]) {
        let was_whole = self.span == Self::iteration(before);
        self.bounds = Self::all(now);
        self.span = if was_whole { Self::iteration(now) } else { self.span.panned(0.0, self.bounds) };
    }

    /// Shows a part of time, as far as it is within the bounds.
    pub fn show(&mut self, from: TimeNs, to: TimeNs) {
        self.span = Span::new(from, to).panned(0.0, self.bounds);
    }

    /// The last two marked instants, in order.
    pub fn marked_pair(&self) -> Option<(TimeNs, TimeNs)> {
        let mut last: Vec<TimeNs> = self.marks.iter().rev().take(2).copied().collect();
        last.sort_unstable();
        (last.len() == 2).then(|| (last[0], last[1]))
    }

    /// Marks the instant of the cursor, or takes its mark away.
    pub fn toggle_mark(&mut self) {
        let at = TimeNs(self.cursor as i64);
        match self.marks.iter().position(|&mark| mark == at) {
            Some(index) => {
                let mark = self.marks.remove(index);
                self.mark_names.remove(&mark);
            }
            None => self.marks.push(at),
        }
    }

    /// Lets go of the chosen event and of marks without a name.
    pub fn leave_choices(&mut self) {
        self.marks.retain(|mark| self.mark_names.contains_key(mark));
        (self.selected, self.is_at_idle) = (None, false);
    }

    /// Marks the instant of the cursor under a name.
    pub fn name_mark(&mut self, name: &str) {
        let at = TimeNs(self.cursor as i64);
        if !self.marks.contains(&at) {
            self.marks.push(at);
        }
        self.mark_names.insert(at, name.to_owned());
    }

    /// The marks in order of time.
    pub fn marks_in_order(&self) -> Vec<TimeNs> {
        let mut marks = self.marks.clone();
        marks.sort_unstable();
        marks
    }

    /// Puts the cursor on an instant.
    pub fn go_to_instant(&mut self, at: TimeNs) {
        (self.cursor, self.selected, self.is_at_idle) = (at.0 as f64, None, false);
        self.span = self.span.showing(self.cursor, self.bounds);
    }

    /// Whether a range was begun and not ended: marks that have a name are none of its ends.
    pub fn is_marking(&self) -> bool {
        let unnamed = self.marks.iter().filter(|mark| !self.mark_names.contains_key(mark)).count();
        unnamed % 2 == 1
    }

    /// Keeps the lane of the cursor at the top, or lets it go.
    pub fn toggle_pin(&mut self) {
        if !self.pinned.remove(&self.lane) {
            self.pinned.insert(self.lane);
        }
    }

    /// Moves by `share` of the width.
    pub fn pan(&mut self, share: f64) {
        self.span = self.span.panned(share, self.bounds);
    }
}
