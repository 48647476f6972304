//! What moved between two iterations: by operator, by call, by kind.

use std::collections::BTreeMap;

use serde::Serialize;

use retime_core::align::{Aligned, align};
use retime_core::analysis::profile::{Call, Named, Place, Profile, Spent};
use retime_core::units::DurNs;

/// On which sides something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiffStatus {
    /// On both.
    #[default]
    Both,
    /// On the second only.
    Added,
    /// On the first only.
    Removed,
}

/// Time of the operators of one name, or of one call, on both sides: means over ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComparedRow {
    /// The operator.
    pub name: String,
    /// Time on the first side: on the device, or on the host where neither side has a device.
    pub a_ns: DurNs,
    /// Time on the second side.
    pub b_ns: DurNs,
    /// Second minus first.
    pub delta_ns: DurNs,
    /// Calls on the first side, on all ranks.
    pub a_count: usize,
    /// Calls on the second side.
    pub b_count: usize,
    /// Calls that stand beside one another in the order of both sides.
    pub matched: usize,
    /// On which sides it is.
    pub presence: DiffStatus,
    /// Time on host threads of the first side.
    pub a_host_ns: DurNs,
    /// Time on host threads of the second side.
    pub b_host_ns: DurNs,
    /// Time on streams of the first side.
    pub a_device_ns: DurNs,
    /// Time on streams of the second side.
    pub b_device_ns: DurNs,
    /// Time on the critical path of the first side. Rows add up to the iteration.
    pub a_path_ns: DurNs,
    /// Time on the critical path of the second side.
    pub b_path_ns: DurNs,
}

/// Time of one kind of task on both sides: means over ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedKind {
    /// Where.
    pub place: Place,
    /// The kind.
    pub kind: &'static str,
    /// Time on the first side; of waits, none but on the path.
    pub a_ns: DurNs,
    /// Time on the second side.
    pub b_ns: DurNs,
    /// Second minus first.
    pub delta_ns: DurNs,
    /// Time on the critical path of the first side. Rows add up to the iteration.
    pub a_path_ns: DurNs,
    /// Time on the critical path of the second side.
    pub b_path_ns: DurNs,
}

impl ComparedRow {
    fn of(name: &str, (a, b): (Option<Named>, Option<Named>), matched: usize, has_device: bool) -> Self {
        let presence = match (a.map_or(0, |a| a.count), b.map_or(0, |b| b.count)) {
            (0, 1..) => DiffStatus::Added,
            (1.., 0) => DiffStatus::Removed,
            _ => DiffStatus::Both,
        };
        let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
        let time = |spent: Spent| if has_device { spent.device } else { spent.host };
        Self {
            name: name.to_owned(),
            a_ns: time(a.spent),
            b_ns: time(b.spent),
            delta_ns: time(b.spent) - time(a.spent),
            a_count: a.count,
            b_count: b.count,
            matched,
            presence,
            a_host_ns: a.spent.host,
            b_host_ns: b.spent.host,
            a_device_ns: a.spent.device,
            b_device_ns: b.spent.device,
            a_path_ns: a.spent.path,
            b_path_ns: b.spent.path,
        }
    }

    /// Second minus first on the critical path: its share in the difference of the iterations.
    pub fn path_delta_ns(&self) -> DurNs {
        self.b_path_ns - self.a_path_ns
    }

    /// Second minus first on host threads.
    pub fn host_delta_ns(&self) -> DurNs {
        self.b_host_ns - self.a_host_ns
    }
}

impl ComparedKind {
    /// Second minus first on the critical path: its share in the difference of the iterations.
    pub fn path_delta_ns(&self) -> DurNs {
        self.b_path_ns - self.a_path_ns
    }
}

/// A row per call, in order, rank beside rank; ranks that the other side has not stand alone.
pub(super) fn by_call(a: &Profile, b: &Profile, has_device: bool) -> Vec<ComparedRow> {
    let none = Vec::new();
    let ranks = a.calls.len().max(b.calls.len());
    let pairs = (0..ranks).map(|rank| (a.calls.get(rank).unwrap_or(&none), b.calls.get(rank).unwrap_or(&none)));
    pairs.flat_map(|(a, b)| of_rank(a, b, has_device)).collect()
}

fn of_rank<'a>(a: &'a [Call], b: &'a [Call], has_device: bool) -> Vec<ComparedRow> {
    let names = |calls: &'a [Call]| calls.iter().map(|call| call.name.as_str()).collect::<Vec<&'a str>>();
    let one = |call: &Call| Named { spent: call.spent, count: 1 };
    let row = |aligned: Aligned| match aligned {
        Aligned::Both(i, j) => ComparedRow::of(&a[i].name, (Some(one(&a[i])), Some(one(&b[j]))), 1, has_device),
        Aligned::First(i) => ComparedRow::of(&a[i].name, (Some(one(&a[i])), None), 0, has_device),
        Aligned::Second(j) => ComparedRow::of(&b[j].name, (None, Some(one(&b[j]))), 0, has_device),
    };
    align(&names(a), &names(b)).into_iter().map(row).collect()
}

/// A row per name that takes time or is called, the largest difference first.
pub(super) fn by_name(a: &Profile, b: &Profile, calls: &[ComparedRow], has_device: bool) -> Vec<ComparedRow> {
    let mut matched: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        *matched.entry(&call.name).or_default() += call.matched;
    }
    let mut names: Vec<&String> = a.by_name.keys().chain(b.by_name.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &String| {
        let matched = matched.get(name.as_str()).copied().unwrap_or(0);
        let both = (a.by_name.get(name).copied(), b.by_name.get(name).copied());
        ComparedRow::of(name, both, matched, has_device)
    };
    let mut rows: Vec<ComparedRow> = names.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.delta_ns.0.abs().cmp(&a.delta_ns.0.abs()).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// A row per kind by place, the largest difference first; waits by what they are on the path.
pub(super) fn kinds(a: &Profile, b: &Profile) -> Vec<ComparedKind> {
    let mut keys: Vec<(Place, &'static str)> = a.by_kind.keys().chain(b.by_kind.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let row = |(place, kind): (Place, &'static str)| {
        let spent = |profile: &Profile| profile.by_kind.get(&(place, kind)).copied().unwrap_or_default();
        let (a, b) = (spent(a), spent(b));
        let time = |spent: Spent| spent.host + spent.device;
        ComparedKind {
            place,
            kind,
            a_ns: time(a),
            b_ns: time(b),
            delta_ns: time(b) - time(a),
            a_path_ns: a.path,
            b_path_ns: b.path,
        }
    };
    let mut rows: Vec<ComparedKind> = keys.into_iter().map(row).collect();
    let size = |row: &ComparedKind| row.delta_ns.0.abs().max(row.path_delta_ns().0.abs());
    rows.sort_by_key(|row| (row.place, std::cmp::Reverse(size(row)), row.kind));
    rows
}
