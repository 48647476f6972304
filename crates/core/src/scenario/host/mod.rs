//! The host of a trace without device work, as a cost model fitted to the trace itself.
//!
//! `t = dispatch + b·bytes` for lookups and, with another `b`, for everything that streams through memory; for products
//! `t = dispatch + a·FLOP + bytes moved`, where what they move is priced by the trace's own streaming rate (see `traffic_s`).
//! It only ever supplies ratios between two sizes of one operator (anchored predictions). Host time between computations is
//! the subject of [`caches`], pages that no one touched before that of [`heap`].

pub(super) mod caches;
mod heap;

use rustc_hash::FxHashMap;

use crate::cost::{Estimate, Family, Shape, Work};
use crate::graph::{DType, ExecutionGraph, NodeId, TaskKind};
use crate::units::DurNs;

use super::draft::Draft;
use super::sparse;
use super::works::{Classifier, Overrides, Sharing};

/// Fitted costs of host computations.
#[derive(Clone, Debug, PartialEq)]
pub struct HostModel {
    /// Cost of an operator that does next to nothing, in seconds.
    dispatch_s: f64,
    /// Seconds per FLOP of products.
    flop_s: f64,
    /// Seconds per byte, by [`Group`]; for products that of everything that streams.
    byte_s: [f64; 4],
    /// How much longer host code takes on cold caches, over its warm time.
    kappa: f64,
}

/// Kinds of computations that are bound alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Product,
    Lookup,
    /// Updates of parameters, in place.
    Update,
    Stream,
}

impl Group {
    fn of(work: &Work) -> Self {
        match work.family {
            Family::Gemm | Family::Conv | Family::Attention => Self::Product,
            Family::Embedding => Self::Lookup,
            Family::Optimizer => Self::Update,
            _ => Self::Stream,
        }
    }
}

/// Traffic of the largest operator that is nothing but dispatch.
const SMALL_BYTES: u64 = 1 << 12;
/// Arithmetic of the largest operator that is nothing but dispatch.
const SMALL_FLOP: f64 = 1e4;
/// Dispatch where nothing small was traced, in seconds.
const USUAL_DISPATCH_S: f64 = 2e-6;
/// Seconds per byte streamed where the trace shows none.
const USUAL_BYTE_S: f64 = 0.06e-9;
/// No core streams faster, in seconds per byte: 50 GB/s.
const LEAST_BYTE_S: f64 = 0.02e-9;
/// What a product reads, or writes, up to this size stays in a core's own cache: it costs nothing besides the arithmetic.
const NEAR_BYTES: f64 = 2e6;
/// How often a byte that a product reads beyond that moves: it is read, and goes through memory again in the order of the kernel's
/// panels. So a product of few rows takes as long as one of some tens of rows more: 22 on one machine whose captures we have, 65 on
/// another, and no trace tells which; 2.0 lies between (both perceptrons, fitted by hand).
const READ_MOVES: f64 = 2.0;
/// How often a byte written beyond that moves: the line is fetched first, the page may be new.
const WRITTEN_MOVES: f64 = 2.5;
/// Share of a look-up's time that is added when it is the first to touch its page (translation, an open row of memory).
const PAGE_SHARE: f64 = 0.3;
const PAGE: f64 = 4096.0;
/// Share of a look-up's time that is added when the way to its page has to be read from memory, because no look-up was there before or
/// others have driven it out since. This and the three below fit a loop that read or updated 10 240 to 163 840 rows of 64 and 128 numbers in
/// tables of 25 to 800 MB, caches emptied before (7 %, n 72). No captured time entered the constants; the form, one of four, was chosen
/// with the captures in view.
const WALK_SHARE: f64 = 1.0;
/// Tables up to this size have the ways to all their pages in caches once these were touched.
const NEAR_TABLE_BYTES: f64 = 35e6;
/// Doublings of a table's size from there until as few have as there can be.
const FAR_DOUBLINGS: f64 = 3.0;
/// Share of them that have not by then.
const MOST_DRIVEN_OUT: f64 = 0.8;
/// Relative error stated: about the geometric mean over models of iterations predicted between batches ×4 to ×16 apart, on
/// captures of models that no constant here was fitted on (`lab whatif` on them; see ARCHITECTURE). Captures of one model minutes
/// apart differ by 2 to 19 % on a shared machine, which no law of sizes can tell.
const ERROR: f32 = 0.15;

impl HostModel {
    /// The model that fits the host computations of `graph`; `None` when there are none whose work is known.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn fit(graph: &ExecutionGraph) -> Option<Self> {
        let computed = computations(graph);
        if computed.is_empty() {
            return None;
        }
        let kappa = caches::kappa(graph, &computed);
        let slowdown = caches::slowdowns(graph, &computed, kappa);
        let small = computed.iter().filter(|(_, work)| is_small(work));
        let mut small: Vec<f64> =
            small.map(|&(node, _)| graph.tasks[node].duration.secs() / slowdown[node.index()]).collect();
        small.sort_by(f64::total_cmp);
        let dispatch_s = small.get(small.len() / 2).copied().unwrap_or(USUAL_DISPATCH_S);
        let measured = without_fresh_pages(graph, &computed);
        let rest = |seconds: f64| (seconds - dispatch_s).max(0.0);
        let of = |group: Group| measured.iter().filter(move |(work, _)| Group::of(work) == group && !is_small(work));
        let rows = |group| of(group).map(|(work, s)| (moved_bytes(work), rest(*s)));
        let stream = streaming(rows(Group::Stream)).unwrap_or(USUAL_BYTE_S);
        // A product is never all traffic, whatever the streaming rate says.
        let arithmetic = |work: &Work, s: f64| rest(s - traffic_s(work, stream)).max(rest(s) * LEAST_ARITHMETIC);
        let products = of(Group::Product).map(|(work, s)| (work.flop.0, arithmetic(work, *s)));
        let flop_s = per_unit(products).unwrap_or(0.0);
        let own = |group| per_unit(rows(group)).unwrap_or(stream);
        let byte_s = [stream, own(Group::Lookup), own(Group::Update), stream];
        Some(Self { dispatch_s, flop_s, byte_s, kappa })
    }

    /// The time of `work`.
    pub fn estimate(&self, work: &Work) -> Estimate {
        let group = Group::of(work);
        let byte_s = self.byte_s[group as usize];
        let seconds = match group {
            Group::Product => self.flop_s * work.flop.0 + traffic_s(work, byte_s),
            Group::Lookup | Group::Update | Group::Stream => byte_s * moved_bytes(work),
        };
        let duration = DurNs::from_secs_f64(self.dispatch_s + seconds);
        Estimate { duration, model: "host-fit", error: ERROR, extrapolated: false }
    }
}

/// Least share of a product's time that is arithmetic.
const LEAST_ARITHMETIC: f64 = 0.3;

/// Whether `work` is nothing but dispatch.
fn is_small(work: &Work) -> bool {
    work.bytes().0 <= SMALL_BYTES && work.flop.0 <= SMALL_FLOP
}

/// Seconds that a product spends on moving its matrices, where streaming takes `stream` seconds per byte. Of a batch of
/// products each has the caches to itself.
fn traffic_s(work: &Work, stream: f64) -> f64 {
    let products = if let Shape::Gemm { batch, .. } = work.shape { batch.max(1) as f64 } else { 1.0 };
    let beyond = |bytes: u64| (bytes as f64 - products * NEAR_BYTES).max(0.0);
    stream * (READ_MOVES * beyond(work.read.0) + WRITTEN_MOVES * beyond(work.written.0))
}

/// Bytes of `work`; those of rows looked up by chance count more where they are on pages of their own: the more rows a table
/// gives, the more of them share one. Tables looked up together drive out the ways to one another's pages.
fn moved_bytes(work: &Work) -> f64 {
    let bytes = work.bytes().0 as f64;
    let &Shape::Embedding { batch, rows, tables, pooling, dim, ref reuse, .. } = &work.shape else { return bytes };
    let look_ups = (batch * tables) as f64 * pooling;
    let row_bytes = (dim * DType::Fp32.size()) as f64;
    let table_pages = rows as f64 * (row_bytes / PAGE).min(1.0);
    let pages = table_pages * tables as f64;
    if look_ups <= 0.0 || pages < 1.0 {
        return bytes;
    }
    let first = (reuse.distinct(pages, look_ups) / look_ups).min(1.0);
    bytes * (1.0 + PAGE_SHARE * first) * walks(first, pages * PAGE) / walks(first, table_pages * PAGE)
}

/// Time of look-ups in tables of as many bytes over that in a small one, where the share `first` is the first on its page.
fn walks(first: f64, table_bytes: f64) -> f64 {
    let driven_out = MOST_DRIVEN_OUT * ((table_bytes / NEAR_TABLE_BYTES).log2() / FAR_DOUBLINGS).clamp(0.0, 1.0);
    1.0 + WALK_SHARE * (1.0 - (1.0 - first) * (1.0 - driven_out))
}

/// Lets what the host spends besides its computations' own work follow the edits made: memory, then code on cold caches.
///
/// # Complexity
/// O(tasks).
pub(in crate::scenario) fn follow(draft: &mut Draft<'_>) {
    let Some(host) = draft.context().host.clone() else { return };
    draft.note_host();
    let pages = heap::touch_all(draft, &host);
    caches::follow(draft, host.kappa);
    heap::give_back(draft, &pages);
}

/// The computations with what they took on memory that was used before.
fn without_fresh_pages<'c>(graph: &ExecutionGraph, computed: &'c [(NodeId, Work)]) -> Vec<(&'c Work, f64)> {
    let works: FxHashMap<NodeId, &Work> = computed.iter().map(|(node, work)| (*node, work)).collect();
    let heap::Pages { fresh, .. } = heap::pages(graph, |node| heap::result(graph, node, works.get(&node).copied()));
    let row = |(node, work): &'c (NodeId, Work)| {
        let took = graph.tasks[*node].duration.secs();
        // Some steps find pages there that others do not.
        let least = (work.bytes().0 as f64 * LEAST_BYTE_S).min(took);
        (work, (took - heap::first_touch_s(fresh[node.index()])).max(least))
    };
    computed.iter().map(row).collect()
}

/// The median time per unit, each row weighted by its time: rows that claim much and take little do not count.
fn per_unit(rows: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    median(rows, |_, seconds| seconds)
}

/// Seconds per byte that streams through memory that was used before: the median over bytes. Weighted by time it would be that
/// of results on fresh pages, which take two to four times as long and are there at one batch size and not at another.
fn streaming(rows: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    median(rows.filter(|(bytes, seconds)| *seconds > LEAST_BYTE_S * bytes), |bytes, _| bytes)
}

/// The median of seconds per unit.
fn median(rows: impl Iterator<Item = (f64, f64)>, weight: fn(f64, f64) -> f64) -> Option<f64> {
    let mut rows: Vec<(f64, f64)> = rows
        .filter(|&(units, _)| units > 0.0)
        .map(|(units, seconds)| (seconds / units, weight(units, seconds)))
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = rows.iter().map(|row| row.1).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    for (each, weight) in rows {
        passed += weight;
        if passed >= half {
            return Some(each);
        }
    }
    None
}

/// The host computations whose work is known, in order.
fn computations(graph: &ExecutionGraph) -> Vec<(NodeId, Work)> {
    if graph.tasks.node_weights().all(|task| task.kind != TaskKind::Compute) {
        return Vec::new();
    }
    let (overrides, sharing) = (Overrides::default(), Sharing::of_graph(graph));
    let mut classifier = Classifier::new(graph, &overrides, &sharing, 0);
    let updates: FxHashMap<NodeId, Work> =
        sparse::updates(graph).filter(|(node, _)| !sharing.auxiliary[node.index()]).collect();
    let computes = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Compute);
    let of_class: Vec<(NodeId, u32)> = computes.map(|node| (node, classifier.class(node))).collect();
    let classes = classifier.classes();
    let known = of_class.into_iter().filter_map(|(node, class)| {
        let by_arguments = || classes.get(class as usize).and_then(|class| class.work.as_deref().cloned());
        Some((node, updates.get(&node).cloned().or_else(by_arguments)?))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::{per_unit, streaming};

    #[test]
    fn the_fit_is_the_rate_of_what_takes_the_time() {
        let rows = [(1e6, 1.0), (2e6, 2.0), (3e6, 3.0), (1e12, 1e-3), (2e6, 4.0)];
        assert!((per_unit(rows.into_iter()).unwrap() - 1e-6).abs() < 1e-12);
        assert_eq!(per_unit(std::iter::empty()), None);
    }

    #[test]
    fn the_streaming_rate_is_that_of_memory_used_before() {
        let rows = [(1e6, 60e-6), (1e6, 62e-6), (1e6, 64e-6), (1e6, 250e-6), (1e9, 1e-6)];
        assert!((streaming(rows.into_iter()).unwrap() - 62e-12).abs() < 1e-15);
        assert_eq!(streaming([(1e9, 1e-6)].into_iter()), None);
    }
}
